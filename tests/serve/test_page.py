"""The page to ask on, in a real browser."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from srrag.serve.feedback import FILE
from tests.conftest import linked
from tests.serve.browsing import VIEWS, accessible, chromium, picture, visit
from tests.unit.serve.serving import CAST, listening, settings

pytestmark = pytest.mark.e2e
ADOLESCENTS = "Should adolescents return to sport nine months after ACL reconstruction?"
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
    page.wait_for_selector("#feedback:visible")


@pytest.mark.parametrize("view", VIEWS)
def test_a_question_is_answered_and_its_citation_opens_the_evidence(
    browser: Browser, url: str, tmp_path: Path, view: str
) -> None:
    with visit(browser, url, view) as page:
        page.wait_for_selector("#pipelines:visible")
        picture(page, f"ask-{view}", tmp_path)
        ask(page, CAST)
        assert "ten days" in page.inner_text("#answer p:first-child")
        assert "guideline or consensus" in page.inner_text("#rests")
        first = page.locator("#evidence > li > .card").first
        number = page.locator(".cite").first.inner_text().removesuffix("A").strip()
        assert first.locator(".number").inner_text() == number, "cited evidence comes first"
        picture(page, f"answer-{view}", tmp_path)
        page.click(".cite")
        card = page.locator(".card[open]")
        assert card.count() == 1 and card.locator(".grade").inner_text() == "A"
        assert "ten days" in card.locator("mark").first.inner_text()
        text = card.inner_text()
        assert "##" not in text, "Markdown is drawn"
        assert "Grade A, guideline or consensus" in text and "2021" in text
        box = card.bounding_box()
        assert box and 0 <= box["y"] < 500, "it is in view"
        picture(page, f"card-{view}", tmp_path)
        accessible(page)


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
          watch("answer", (node) => `${node.className}: ${node.textContent}`);
        }""")
        ask(page, CAST)
        seen = page.evaluate("window.seen")
        steps = [text for name, text in seen if name == "progress" and text]
        assert steps[0] == "Asking …" and "Evidence chosen …" in steps
        assert not any(word in text for text in steps for word in ("Rerank", "Select", "Compose"))
        drafts = [text for name, text in seen if name == "answer" and text.startswith("draft")]
        assert any("Immobilisation" in text for text in drafts)
        assert page.get_attribute("#answer", "class") == "", "what stands now is final"


def test_why_the_evidence_is_there_with_the_term_of_its_grade(
    browser: Browser, url: str, tmp_path: Path
) -> None:
    with visit(browser, url) as page:
        ask(page, CAST)
        page.click("#why > summary")
        reasons = page.locator("#reasons > li")
        assert reasons.count() == page.locator(".card").count() > 3
        number = page.locator(".cite").first.inner_text().split("A")[0].strip()
        told = next(text for text in reasons.all_inner_texts() if text.split()[0] == number)
        assert "by meaning among guidelines" in told and "final #" in told
        assert "Score with its grade (BETR)" in told and "the term of grade" in told
        assert "Evidence chosen" in page.inner_text("#steps")
        accessible(page)
        picture(page, "why", tmp_path)
        page.locator("#reasons a").first.click()
        page.wait_for_selector(".point")


def test_other_people_than_asked_about_are_marked(
    browser: Browser, url: str, tmp_path: Path
) -> None:
    with visit(browser, url, "phone") as page:
        ask(page, ADOLESCENTS)
        assert "adolescents" in page.inner_text("#notice")
        assert page.locator("#answer p").count() > 1
        page.click(".others > summary")
        other = page.locator(".card", has=page.locator("summary .chip.other")).first
        other.locator("summary").click()
        assert "you asked about adolescents" in other.locator(".chips").inner_text()
        picture(page, "mismatch", tmp_path)
        accessible(page)


def test_an_abstention_says_so_once(browser: Browser, url: str, tmp_path: Path) -> None:
    with visit(browser, url) as page:
        ask(page, UNKNOWN)
        assert page.inner_text("#answer-title") == "Not enough evidence"
        assert "none cited" in page.inner_text("#evidence")
        assert page.locator("#notice").is_hidden() and page.locator(".cite").count() == 0
        assert page.inner_text("#result").count("hiccups") == 1
        picture(page, "abstention", tmp_path)


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
        page.wait_for_selector("#feedback:visible")
        for _ in range(10):
            press("Tab")
            if "cite" in focused(page):
                break
        press("Enter")
        inside = "document.activeElement.closest('.card[open]') !== null"
        assert page.evaluate(inside), "the card is open and has the focus"
        press("Escape")
        assert "cite" in focused(page), "and gives it back"
        for _ in range(10):
            press("Tab")
            if page.evaluate("document.activeElement.closest('#feedback') !== null"):
                break
        press("Enter")
        page.wait_for_selector("#thanks:not(:empty)")


def test_feedback_is_kept_without_the_question_unless_it_is_given(
    browser: Browser, url: str, root: Path
) -> None:
    (root / FILE).unlink(missing_ok=True)
    with visit(browser, url, "phone") as page:
        ask(page, CAST)
        page.click("#feedback [value=not_helpful]")
        page.wait_for_selector("#more:visible")
        assert "without your question in jobs/serve/feedback.jsonl" in page.inner_text("#thanks")
        page.fill("#comment", "It was a <child>.")
        page.check("#with-question")
        page.click("#more button")
        page.wait_for_selector("#more", state="hidden")
        assert "with your question" in page.inner_text("#thanks")
        accessible(page)
    first, second = map(json.loads, (root / FILE).read_text("utf-8").splitlines())
    assert first["verdict"] == "not_helpful" and "question" not in first
    assert second["comment"] == "It was a <child>." and second["question"] == CAST
    assert first["answer_id"] == second["answer_id"] and first["pipeline"] == "srrag"


def test_examples_and_faults(browser: Browser, url: str) -> None:
    with visit(browser, url, faults=True) as page:
        page.click("#examples button")
        page.wait_for_selector(".cite")
        page.fill("#question", "?!")
        page.press("#question", "Enter")
        page.wait_for_selector("#fault:visible")
        assert "no word" in page.inner_text("#fault")
        assert page.locator("#result").is_hidden()


def test_what_is_asked_is_never_read_as_html(browser: Browser, url: str) -> None:
    with visit(browser, url) as page:
        ask(page, "<img src=x onerror='document.title=1'> ankle sprain cast <script>1</script>")
        assert page.title() == "SR-RAG"
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
        page.wait_for_selector("#keys:visible")
        page.fill("#key", "secret")
        page.press("#key", "Tab")
        page.wait_for_selector("#fault", state="hidden")
        ask(page, CAST)
        assert page.locator(".cite").count()
        page.click("text=Graph")
        page.wait_for_selector("#begin li")


def test_quotes_mismatches_and_sources_of_a_document_are_shown_as_text(
    browser: Browser, url: str
) -> None:
    text = "## Who\n𝛂 <b>Boys</b> improved **fast**. Girls did not.\n- one\n"
    text += "| a | b |\n|---|---|\n| 1 | 2 |"
    start = text.index("<b>")
    item: dict[str, Any] = {
        "number": 1, "unit_id": "u", "doc_id": "d", "title": "<img src=x onerror=alert(1)>",
        "section": "", "text": text, "year": 2020, "grade": "C", "study": "randomised trial",
        "source_id": "s", "source": "f", "grade_source": "metadata", "pmid": "12345",
        "quotes": [{"char_start": start, "char_end": start + 20, "text": "", "parts": ["P", "O"]}],
        "mismatches": [{"part": "P", "asked": "adults", "found": "boys"}],
    }  # fmt: skip
    reply = {
        "id": "i", "question": "q", "answer": "Boys improved. [1][7]", "notice": "About boys.",
        "note": "", "model": "m", "pipeline": "p", "version": "v", "trace": [], "why": [],
        "insufficient": False, "sentences": [{"text": "Boys improved.", "citations": [1]}],
        "evidence": [item, {**item, "number": 2, "pmid": "javascript:alert(1)"}],
    }  # fmt: skip
    with visit(browser, url) as page:
        page.evaluate("async (reply) => (await import('/ask.js')).show(reply)", reply)
        assert page.inner_text("#notice") == "About boys."
        assert page.text_content("#e1 mark") == text[start : start + 20]
        assert page.text_content("#e1 .window strong") == "fast"
        assert page.locator("#e1 .window td").all_text_contents() == [" a ", " b ", " 1 ", " 2 "]
        assert page.locator("#e1 .window li").all_text_contents() == ["one"]
        chips = page.locator("#e1 .chips li").all_text_contents()
        assert chips == ["≠ Population: boys – you asked about adults", "Outcome stated"]
        links = page.locator("main a")
        assert links.count() == 1, "only numbers become links"
        assert links.get_attribute("href") == "https://pubmed.ncbi.nlm.nih.gov/12345/"
        assert links.get_attribute("rel") == "noopener noreferrer"
        assert page.locator("#evidence b, #evidence img").count() == 0
        assert "<img" in (page.text_content("#e1 .title") or "")
        page.locator(".cite").nth(1).click()
        assert page.locator(".card[open]").count() == 0, "a citation without evidence does nothing"
