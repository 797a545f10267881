"""The page to ask on, in a real browser."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from srrag.answer.clinical import clinical_reading
from srrag.answer.evidence import Evidence, EvidenceQuote, papers_of
from srrag.answer.record import AnswerFinding, AnswerNote, AnswerRecord, AnswerSentence, TextPlace
from srrag.serve.api.conversation import Turn, conversation
from srrag.serve.feedback import FILE
from tests.conftest import linked
from tests.findings_root import PREVENTS, with_findings
from tests.serve.browsing import (
    VIEWS,
    accessible,
    arrival,
    chromium,
    dark,
    held,
    picture,
    settled,
    visit,
)
from tests.unit.serve.serving import CAST, CitingModel, citing, listening, settings

pytestmark = pytest.mark.e2e
ADOLESCENTS = "Should adolescents return to sport nine months after ACL reconstruction?"
WALKING = "Does exercise prevent recurrence in adults who take up walking?"
UNKNOWN = "Do ketamine lozenges cure hiccups of astronauts?"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def root(fitted_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with BETR's parameters for the pipeline `srrag`."""
    return linked(fitted_root, tmp_path_factory.mktemp("page") / "root")


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with listening(settings(root, "pipeline=srrag", "also=[hybrid_maxsim]")) as url:
        yield url


def ask(page: Page, question: str) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    settled(page)
    assert page.locator("#feedback").is_visible()


def test_what_is_typed_before_the_page_is_ready_stays(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        with held(page, "**/v1/library") as library:
            page.reload(wait_until="commit")
            library.wait()
            page.fill("#question", CAST)
        settled(page)
        assert page.input_value("#question") == CAST
        page.press("#question", "Enter")
        settled(page)
        assert page.inner_text("#asked") == CAST


@pytest.mark.parametrize("view", VIEWS)
def test_a_question_is_answered_and_its_citation_opens_the_evidence(
    browser: Browser, url: str, view: str
) -> None:
    with visit(browser, url, view) as page:
        assert page.locator("#pipelines").is_visible()
        ask(page, CAST)
        assert page.inner_text("#asked") == CAST and page.title().startswith(CAST)
        assert "ten days" in page.inner_text("#answer p:first-child")
        assert "guideline or consensus" in page.inner_text("#sure")
        assert page.locator("#points li").count() >= 1, "what it does not tell"
        row = page.locator("#findings tbody tr:not(#paper-row)").first
        assert "ten days" in row.inner_text()
        picture(page, f"answer-{view}")
        if view == "desk":
            with dark(page):
                picture(page, "answer-dark")
        page.click(".cite")
        paper = page.locator("#paper")
        assert paper.locator(".grade").first.inner_text() == "A"
        assert "ten days" in paper.locator("mark").first.inner_text()
        text = paper.inner_text()
        assert "##" not in text, "Markdown is drawn"
        assert "Grade A, guideline or consensus" in text and "2021" in text
        assert "Here because" in text
        box = paper.bounding_box()
        assert box and -5 <= box["y"] < 700, "it is in view"
        assert "shown" in (row.get_attribute("class") or "")
        accessible(page, view)


def test_the_answer_streams_and_progress_says_what_happens(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        page.evaluate("""() => {
          window.seen = [];
          const watch = (id, told) => new MutationObserver(() => {
            const node = document.getElementById(id);
            window.seen.push([id, told(node)]);
          }).observe(document.getElementById(id), {childList: true, subtree: true,
                                                   characterData: true});
          watch("progress", (node) => node.textContent);
          watch("answer", (node) => `${node.closest("article").className}: ${node.textContent}`);
        }""")
        ask(page, CAST)
        seen = page.evaluate("window.seen")
        steps = [text for name, text in seen if name == "progress" and text]
        assert steps[0] == "Asking …" and "Evidence chosen …" in steps
        assert not any(word in text for text in steps for word in ("Rerank", "Select", "Compose"))
        drafts = [text for name, text in seen if name == "answer" and text.startswith("draft")]
        assert any("Immobilisation" in text for text in drafts)
        assert page.get_attribute("#result", "class") == "answered", "what stands now is final"
        assert "ten days" in page.inner_text("#said"), "told to who listens"
        assert page.evaluate("document.activeElement.id") == "asked", "and the focus follows"


@pytest.mark.parametrize("view", VIEWS)
def test_studies_are_put_side_by_side_when_it_is_asked_for(
    browser: Browser, sample_root: Path, tmp_path: Path, view: str
) -> None:
    told = settings(with_findings(sample_root, tmp_path / "root"), "pipeline=bm25")
    with listening(told) as url, visit(browser, url, view) as page:
        ask(page, PREVENTS)
        assert page.locator(".comparison").count() == 0, "nothing is made before"
        page.focus("#gather")
        page.keyboard.press("Enter")
        settled(page)
        assert "1 comparison" in page.inner_text("#gathered")
        studies = page.get_by_label("Studies", exact=True)
        assert [each.split()[0] for each in studies.locator("td .says").all_inner_texts()] == [
            "better", "no", "worse",
        ]  # fmt: skip
        studies.get_by_text("The sentence").first.click()
        settled(page)
        assert "198 days" in studies.locator(".window mark").inner_text()
        plot = page.locator(".forest img")
        assert plot.evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
        apart = page.get_by_label("What sets the studies apart")
        assert "boys aged 12 to 14" in apart.inner_text()
        page.get_by_text("Your patient and theirs").click()
        fits = page.get_by_label("The people of the question and of the studies").inner_text()
        assert "≠ another" in fits and "✓ as asked" in fits and "not told" in fits
        assert "Indirectness: concern" in page.inner_text(".domains")
        page.locator("#across").scroll_into_view_if_needed()
        accessible(page, view)


@pytest.mark.parametrize("view", ["desk", "phone"])
def test_beside_a_models_answer_stands_what_the_findings_say_without_a_click(
    browser: Browser, sample_root: Path, tmp_path: Path, view: str
) -> None:
    told = settings(with_findings(sample_root, tmp_path / "root"), "pipeline=bm25")
    told = replace(told, pipelines={"bm25": citing(told, CitingModel())})
    with listening(told) as url, visit(browser, url, view) as page:
        asked: list[str] = []
        page.on("request", lambda made: asked.append(made.url.removeprefix(url)))
        with held(page, "**/v1/synthesis") as synthesis:
            page.fill("#question", WALKING)
            page.press("#question", "Enter")
            synthesis.wait()
            assert page.locator("#feedback").is_visible(), "the answer does not wait for it"
            assert page.inner_text("#in-short") == ""
        settled(page)
        beside = page.inner_text("#certainty #in-short")
        assert (
            "vs usual care or no treatment: recurrence. 3 randomised trials: 1 better, 1" in beside
        )
        assert "The answer cites 1 of them." in beside
        assert "The studies do not say the same: they differ in people, frequency" in beside
        assert "Of concern: inconsistency" in beside and "Not judged: risk of bias" in beside
        accessible(page, view)
        assert page.locator(".comparison").count() == 0
        page.get_by_role("button", name="Study by study").click()
        settled(page)
        assert page.get_by_label("Studies", exact=True).locator("tbody tr").count() == 3
        assert asked.count("v1/synthesis") == 1 and asked.index("v1/answers/stream") == 0
        page.emulate_media(media="print")
        assert page.locator("#in-short").is_visible() and page.locator("#gather").is_hidden()


def test_what_cannot_be_gathered_is_one_quiet_line(
    browser: Browser, sample_root: Path, tmp_path: Path
) -> None:
    told = settings(with_findings(sample_root, tmp_path / "root"), "pipeline=bm25")
    told = replace(told, pipelines={"bm25": citing(told, CitingModel())})
    with listening(told) as url, visit(browser, url, faults=True) as page:
        page.route("**/v1/synthesis", lambda route: route.abort())
        ask(page, WALKING)
        assert page.inner_text("#in-short") == "" and page.locator("#fault").is_hidden()
        assert "cannot be reached" in page.inner_text("#gathered")
        page.unroute("**/v1/synthesis")
        page.click("#gather")
        settled(page)
        assert page.locator(".comparison").count() == 1


@pytest.mark.parametrize("by", ["rules", "a model"])
def test_rules_read_no_papers_for_a_synthesis_that_nobody_asked_for(
    browser: Browser, sample_root: Path, tmp_path: Path, by: str
) -> None:
    told = settings(sample_root, "pipeline=bm25", f"completions={tmp_path}")
    if by == "a model":
        told = replace(told, pipelines={"bm25": citing(told, CitingModel())})
    with listening(told) as url, visit(browser, url) as page:
        asked: list[str] = []
        page.on("request", lambda made: asked.append(made.url))
        ask(page, WALKING)
        assert len(asked) == 1 and asked[0].endswith("/v1/answers/stream")
        assert page.is_visible("#gather") and page.inner_text("#in-short") == ""


def test_a_library_without_findings_says_so(browser: Browser, url: str) -> None:
    with visit(browser, url, faults=True) as page:
        ask(page, CAST)
        page.click("#gather")
        settled(page)
        assert "holds no findings" in page.inner_text("#gathered")
        assert page.is_enabled("#gather")


def test_why_the_evidence_is_there_with_the_term_of_its_grade(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, CAST)
        page.click(".cite")
        paper = page.locator("#paper")
        assert "Here because its meaning is close" in paper.inner_text()
        paper.get_by_text("Ranks and scores").click()
        told = paper.locator(".ranks").inner_text()
        assert "by meaning among guidelines" in told and "final #" in told
        assert "Score with its grade (BETR)" in told and "the term of grade" in told
        page.click("#steps-taken > summary")
        assert "Evidence chosen" in page.inner_text("#steps")
        accessible(page)


def test_an_abstention_says_so_once(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, UNKNOWN)
        assert page.text_content("#answer-title") == "Not enough evidence"
        assert "none cited" in page.inner_text("#others")
        assert page.locator("#certainty").is_hidden() and page.locator("#untold").is_hidden()
        assert page.locator("#notice").is_hidden() and page.locator(".cite").count() == 0
        said = page.inner_text("#answer") + page.inner_text("#missing")
        assert said.count("hiccups") == 1


def test_by_keyboard_alone(browser: Browser, url: str) -> None:
    def focused(page: Page) -> str:
        return str(page.evaluate("document.activeElement.className + document.activeElement.id"))

    with visit(browser, url) as page:
        press = page.keyboard.press
        for _ in range(10):
            press("Tab")
            if "question" in focused(page):
                break
        page.keyboard.type(CAST)
        press("Enter")
        settled(page)
        for _ in range(10):
            press("Tab")
            if "cite" in focused(page):
                break
        press("Enter")
        inside = "document.activeElement.closest('#paper') !== null"
        assert page.evaluate(inside), "the paper is open and has the focus"
        press("Escape")
        assert "cite" in focused(page), "and gives it back"
        for _ in range(60):
            press("Tab")
            if page.evaluate("document.activeElement.closest('#feedback') !== null"):
                break
        press("Enter")
        settled(page)
        assert page.inner_text("#thanks").startswith("Thank you.")


def test_feedback_is_kept_without_the_question_unless_it_is_given(
    browser: Browser, url: str, root: Path
) -> None:
    (root / FILE).unlink(missing_ok=True)
    with visit(browser, url, "phone") as page:
        ask(page, CAST)
        page.click("#feedback [value=not_helpful]")
        settled(page)
        assert page.locator("#more").is_visible()
        assert "without your question in jobs/serve/feedback.jsonl" in page.inner_text("#thanks")
        page.fill("#comment", "It was a <child>.")
        page.check("#with-question")
        page.click("#more button")
        settled(page)
        assert page.locator("#more").is_hidden()
        assert "with your question" in page.inner_text("#thanks")
        accessible(page)
    first, second = map(json.loads, (root / FILE).read_text("utf-8").splitlines())
    assert first["verdict"] == "not_helpful" and "question" not in first
    assert second["comment"] == "It was a <child>." and second["question"] == CAST
    assert first["answer_id"] == second["answer_id"] and first["pipeline"] == "srrag"


def test_examples_and_faults(browser: Browser, url: str) -> None:
    with visit(browser, url, faults=True) as page:
        page.click("#examples button")
        settled(page)
        assert page.locator("#feedback").is_visible()
        page.fill("#question", "?!")
        page.press("#question", "Enter")
        settled(page)
        assert "no word" in page.inner_text("#fault")
        assert page.locator("#result").is_hidden()


def test_what_is_asked_is_never_read_as_html(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, "<img src=x onerror='document.title=1'> ankle sprain cast <script>1</script>")
        assert page.title().startswith("<img")
        assert page.locator("img, main script").count() == 0


def test_a_key_is_asked_for_and_kept_for_the_other_pages(
    browser: Browser, sample_root: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()}\n")
    with (
        listening(settings(sample_root, "pipeline=bm25", f"api_keys={keys}")) as url,
        visit(browser, url, faults=True) as page,
    ):
        assert page.locator("#keys").is_visible()
        page.fill("#key", "secret")
        page.press("#key", "Tab")
        settled(page)
        assert page.locator("#fault").is_hidden()
        ask(page, CAST)
        assert page.locator(".cite").count()
        with arrival(page):
            page.click("text=Graph")
        assert page.locator("#begin li").first.is_visible()


def read(answer: AnswerRecord) -> dict[str, Any]:
    """The JSON of an answer with its clinical reading, as the page asks for it."""
    answer = replace(
        answer, papers=papers_of(answer.evidence, {each.number for each in answer.cited})
    )
    return replace(answer, clinical=clinical_reading(answer), why=()).json


def test_an_answer_by_a_model_shows_verdict_findings_limits_and_what_is_missing(
    browser: Browser, url: str
) -> None:
    text = "Seventy adults 𝛂 took part. Pain fell by 2.1 points (p = .03). No harm was seen."
    start = text.index("Pain fell")
    end = start + len("Pain fell by 2.1 points (p = .03).")
    place = TextPlace(number=1, start=start, end=end)
    item = Evidence(
        number=1, evidence_id="e", kind="document", doc_id="d", title="Lamps for knees", text=text,
        year=2021, grade="C", study="randomised trial", source_id="s", standing="retracted",
        standing_link="pmid:9",
    )  # fmt: skip
    finding = AnswerFinding(text="Pain fell", kind="result", number=1, start=start, end=end)
    reply = AnswerRecord(
        question="Does lamp therapy relieve knee pain?", state="partly", verdict="yes", model="m",
        answer="Lamps eased pain in adults. [1]\n\nOne small trial. [1]", missing="Doses.",
        sentences=(
            AnswerSentence(text="Lamps eased pain in adults.", citations=(1,), places=(place,)),
            AnswerSentence(text="Pain: 2.1 points less in 35 of 70 (p = .03).", citations=(1,)),
            AnswerSentence(text="Harm: none was seen.", part="evidence", citations=(1,)),
            AnswerSentence(text="One small trial.", part="limits", citations=(1,)),
        ),
        findings=(finding,), evidence=(item,),
        notes=(AnswerNote(kind="publication", text="[1]: retracted (PMID 9)."),),
    )  # fmt: skip
    with visit(browser, url) as page:
        page.evaluate("async (reply) => (await import('/ask.js')).show(reply)", read(reply))
        assert page.inner_text("#answer > p").startswith("Lamps eased pain in adults.")
        assert page.locator("#answer li").count() == 2, "sizes and further outcomes are a list"
        assert page.inner_text("#verdict") == "Answered in part"
        assert page.inner_text("#missing") == "Missing: Doses."
        assert page.inner_text("#limited-by").startswith("One small trial.")
        assert page.inner_text("#standing") == "[1]: retracted (PMID 9)."
        row = page.locator("#findings tbody tr")
        assert row.count() == 1 and "result" in row.inner_text() and "Retracted" in row.inner_text()
        row.locator("button").click()
        assert page.text_content("#paper .window mark") == text[start:end]
        accessible(page)


def test_a_paper_that_was_found_but_not_cited_carries_its_mark(browser: Browser, url: str) -> None:
    item = Evidence(
        number=1, evidence_id="e", doc_id="d", title="Lamps for knees", text="Pain fell.",
        standing="concern", standing_link="pmid:9",
    )  # fmt: skip
    reply = AnswerRecord(
        question="q", answer="Nothing here says so.", state="not", evidence=(item,)
    )
    with visit(browser, url) as page:
        page.evaluate("async (reply) => (await import('/ask.js')).show(reply)", read(reply))
        assert page.inner_text("#uncited .standing") == "Expression of concern"
        accessible(page)


def test_quotes_and_sources_of_a_document_are_shown_as_text(browser: Browser, url: str) -> None:
    text = "## Who\n𝛂 <b>Boys</b> improved **fast**. Girls did not.\n- one\n"
    text += "| a | b |\n|---|---|\n| 1 | 2 |"
    start = text.index("<b>")
    item = Evidence(
        number=1, unit_id="u", doc_id="d", title="<img src=x onerror=alert(1)>", text=text,
        year=2020, grade="C", study="randomised trial", source_id="s", source="f",
        grade_source="metadata", pmid="12345",
        quotes=(EvidenceQuote(char_start=start, char_end=start + 20, text="", parts=("P", "O")),),
    )  # fmt: skip
    reply = read(
        AnswerRecord(
            question="q", answer="Boys improved. [1][2]", state="answered", model="rules",
            sentences=(AnswerSentence(text="Boys improved.", citations=(1, 2)),),
            evidence=(item, replace(item, number=2, pmid="javascript:alert(1)")),
        )
    )  # fmt: skip
    with visit(browser, url) as page:
        page.evaluate("async (reply) => (await import('/ask.js')).show(reply)", reply)
        page.locator(".cite").first.click()
        assert page.text_content("#paper .window mark") == text[start : start + 20]
        assert page.text_content("#paper .window strong") == "fast"
        cells = page.locator("#paper .window td").all_text_contents()
        assert cells == [" a ", " b ", " 1 ", " 2 "]
        assert page.locator("#paper .window li").all_text_contents() == ["one"]
        chips = page.locator("#paper .chips li").all_text_contents()
        assert chips == ["Population stated", "Outcome stated"]
        links = page.locator("main a:not([download]):not(#as-graph)")
        assert links.count() == 1, "only numbers become links"
        assert links.get_attribute("href") == "https://pubmed.ncbi.nlm.nih.gov/12345/"
        assert links.get_attribute("rel") == "noopener noreferrer"
        assert page.locator("#found b, #found img").count() == 0
        assert "<img" in (page.text_content("#paper h3") or "")
        page.locator(".cite").nth(1).click()
        assert links.count() == 0, "no link out of another number"


def test_an_answer_has_an_address_and_the_way_back_leads_to_it(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, CAST)
        first = page.url
        assert "q=How+long" in first
        ask(page, ADOLESCENTS)
        page.go_back()
        expect(page.locator("#asked")).to_have_text(CAST)
        assert "ten days" in page.inner_text("#answer"), "without asking again"
        page.go_back()
        settled(page)
        assert page.locator("#past button").all_inner_texts() == [ADOLESCENTS, CAST]
        page.click("#forget")
        assert page.locator("#asked-before").is_hidden()
        page.goto("about:blank")
        page.goto(f"{first}&v=00000000")
        settled(page)
        assert "has changed since this link" in page.inner_text("#notice")


def test_the_way_back_calls_off_the_answer_that_is_on_its_way(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, CAST)
        with held(page, "**/v1/answers/stream") as stream:
            page.fill("#question", ADOLESCENTS)
            page.press("#question", "Enter")
            stream.wait()
            page.go_back()
            expect(page.locator("#asked")).to_have_text(CAST)
        settled(page)
        assert page.inner_text("#asked") == CAST and "ten days" in page.inner_text("#answer")
        assert "q=How+long" in page.url and page.inner_text("#progress") == ""
        page.go_forward()
        expect(page.locator("#asked")).to_have_text(ADOLESCENTS)


def test_an_answer_is_taken_along_as_text_and_references(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        ask(page, CAST)
        page.click("#copy")
        expect(page.locator("#taken")).to_have_text("The answer is copied.")
        text = page.evaluate("navigator.clipboard.readText()")
        assert text.startswith(CAST) and "What this does not tell" in text and "Sources" in text
        page.click("#link")
        expect(page.locator("#taken")).to_have_text("The link is copied.")
        assert "&v=" in page.evaluate("navigator.clipboard.readText()")
        for name, begins in (("ris", "TY  - JOUR"), ("bibtex", "@article{")):
            with page.expect_download() as download:
                page.click(f"#{name}")
            assert download.value.path().read_text("utf-8").startswith(begins)


def test_a_print_shows_the_answer_and_none_of_its_buttons(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, CAST)
        page.emulate_media(media="print")
        assert page.locator("#references").is_visible() and page.locator("#answer").is_visible()
        assert page.locator("#ask").is_hidden() and page.locator("#feedback").is_hidden()


def test_offline_is_said_in_words(browser: Browser, url: str) -> None:
    with visit(browser, url, faults=True) as page:
        page.context.set_offline(True)
        expect(page.locator("#offline")).to_be_visible()
        page.fill("#question", CAST)
        page.press("#question", "Enter")
        expect(page.locator("#fault")).to_have_text("You are offline: the server cannot be asked.")
        page.context.set_offline(False)
        expect(page.locator("#offline")).to_be_hidden()


def test_examples_are_titles_of_the_library(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        assert "What do guidelines recommend for" in page.inner_text("#examples")
        assert "guideline" in page.inner_text("#library")
        accessible(page)


def test_a_question_in_another_language_says_so(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(
            page,
            "Wie lange darf der Knöchel nach der Verletzung in den Gips (ankle cast)?",
        )
        assert "seems to be in German" in page.inner_text("#notice")


def test_a_follow_up_is_shown_as_it_was_read(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, "Does bracing prevent recurrent ankle sprains in athletes?")
        with page.expect_request("**/v1/answers/stream") as sent:
            ask(page, "And in adolescents?")
        (before,) = sent.value.post_data_json["history"]
        said = conversation([Turn(**before)], "And in adolescents?")
        assert said["papers"] and "[E1]" in said["turns"][0]["answer"]
        read = "Does bracing prevent recurrent ankle sprains in adolescents?"
        expect(page.locator("#asked")).to_have_text(read)
        assert "You asked “And in adolescents?”" in page.inner_text("#read-as")
        assert "in+adolescents" in page.url, "the link stands alone"


def test_a_follow_up_that_failed_is_asked_again_with_its_conversation(
    browser: Browser, url: str
) -> None:
    asked: list[list[str]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/v1/answers/stream"):
            body = request.post_data_json or {}
            asked.append([turn["question"] for turn in body.get("history", [])])

    stream = "**/v1/answers/stream"
    with visit(browser, url, faults=True) as page:
        ask(page, CAST)
        page.on("request", note)
        page.route(stream, lambda route: route.fulfill(status=503, body="{}"))
        page.fill("#question", "And in adolescents?")
        page.press("#question", "Enter")
        expect(page.locator("#fault")).to_be_visible()
        settled(page)
        page.reload()
        expect(page.locator("#fault")).to_be_visible()
        settled(page)
        page.unroute(stream)
        with held(page, stream) as kept:
            page.click("#ask [type=submit]")
            kept.wait()
            page.fill("#question", "And in children?")
            page.press("#question", "Enter")
            while len(kept.routes) < 2:
                page.evaluate("0")
        settled(page)
        assert asked == [[CAST]] * 4, "a question leans on the last answer that came"
        assert "You asked “And in children?”" in page.inner_text("#read-as")
        page.evaluate("history.go(-3)")
        expect(page.locator("#start")).to_be_visible()
        ask(page, WALKING)
        assert asked[-1] == [], "a question from the start leans on none"
