"""The pages of stored runs and of the graph, in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.serve.browsing import VIEWS, accessible, arrival, chromium, held, picture, settled, visit
from tests.serve.stored import QUESTIONS, store_runs
from tests.unit.serve.serving import CAST, listening, settings

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def url(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = store_runs(sample_root, tmp_path_factory.mktemp("reading"))
    for number, name in enumerate(("three", "four", "five")):
        shutil.copytree(root / "jobs" / ("words", "both")[number % 2], root / "jobs" / name)
    with listening(settings(root, "pipeline=bm25")) as url:
        yield url


def listed(page: Page, count: int) -> Locator:
    """The questions, once there are so many."""
    questions = page.locator("#questions > li > button")
    expect(questions).to_have_count(count)
    return questions


@pytest.mark.parametrize("view", VIEWS)
def test_two_runs_are_compared(browser: Browser, url: str, view: str) -> None:
    with visit(browser, f"{url}runs", view) as page:
        listed(page, 5)
        page.select_option("#run", label="jobs/words")
        questions = listed(page, len(QUESTIONS))
        page.click("#beside summary")
        assert page.locator("#against label", has_text="jobs/words").is_hidden(), "not itself"
        page.get_by_role("checkbox", name="jobs/both").check()
        page.click("#beside summary")
        settled(page)
        questions.filter(has_text="adolescents").click()
        settled(page)
        sides = page.locator(".side")
        assert sides.locator("h3").all_text_contents() == ["jobs/words", "jobs/both"]
        assert "The two runs differ in" in page.inner_text("#changes")
        accessible(page, view)
        sides.nth(1).locator(".cite").first.click()
        opened = page.locator(".card[open]")
        assert opened.count() == 1 and opened.locator("mark").count()
        assert (opened.get_attribute("id") or "").startswith("eb"), "the card of its own side"
        shared = page.url
        page.goto("about:blank")
        page.goto(shared)
        settled(page)
        assert "1 other run" in page.inner_text("#beside-told"), "the address holds the comparison"


def test_questions_are_filtered(browser: Browser, url: str) -> None:
    with visit(browser, f"{url}runs") as page:
        page.select_option("#run", label="jobs/words")
        listed(page, len(QUESTIONS))
        page.fill("#text", "cast")
        expect(listed(page, 1)).to_contain_text(CAST)
        assert "1 of 6" in page.inner_text("#count")
        page.fill("#text", "")
        page.select_option("#state", "failed")
        expect(listed(page, 1)).to_contain_text("empty_question")
        settled(page)
        assert page.locator(".reject").is_visible()
        page.select_option("#state", "")
        page.select_option("#grade", "A")
        graded = listed(page, page.evaluate(COUNT_A))
        assert graded.locator(".grade.A").count() == graded.count() > 0


COUNT_A = """async () => {
  const { runs } = await (await fetch('v1/runs')).json();
  const id = runs.find((run) => run.name === 'jobs/words').id;
  return (await (await fetch(`v1/runs/${id}?grade=A`)).json()).total;
}"""


def test_five_runs_stand_side_by_side_and_a_trace_has_a_link(browser: Browser, url: str) -> None:
    with visit(browser, f"{url}runs") as page:
        listed(page, 5)
        page.select_option("#run", label="jobs/words")
        page.click("#beside summary")
        for name in ("jobs/both", "jobs/three", "jobs/four", "jobs/five"):
            page.get_by_role("checkbox", name=name).check()
        page.click("#beside summary")
        page.select_option("#order", "difference")
        expect(page.locator("#questions .chip.other").first).to_contain_text("runs")
        page.locator("#questions > li > button").filter(has_text="bed rest").click()
        expect(page.locator(".side")).to_have_count(5)
        picture(page, "runs-five")
        page.locator(".trace > summary").first.click()
        page.locator(".permanent").first.click()
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        expect(page.locator(".side")).to_have_count(5)
        assert "bed rest" in page.inner_text("#asked")
        assert page.locator(".trace[open] .steps li").count() >= 5
        page.check("#differs")
        expect(page.locator("#count")).not_to_contain_text("6 of")
        page.locator("#questions > li > button").first.click()
        accessible(page)


@pytest.mark.parametrize("view", ["desk", "phone"])
def test_a_click_while_the_list_is_on_its_way_loses_neither(
    browser: Browser, url: str, view: str
) -> None:
    with visit(browser, f"{url}runs", view) as page:
        questions = listed(page, 5)
        with held(page, "**/v1/runs/*?*offset=*") as let_go:
            page.select_option("#run", label="jobs/words")
            let_go.wait()
            questions.filter(has_text="bed rest").click()
            expect(page.locator("#asked")).to_contain_text("bed rest")
        listed(page, len(QUESTIONS))
        expect(questions.filter(has_text="bed rest")).to_have_attribute("aria-current", "true")
        expect(page.locator(".side h3")).to_have_text(["jobs/words"])
        expect(page.locator("#asked")).to_contain_text("bed rest")
        expect(page.locator("#count")).to_have_text("6 of 6 questions")
        expect(page.locator("#asked")).to_be_focused()


def test_an_answer_that_comes_after_the_next_list_does_not_replace_its_own(
    browser: Browser, url: str
) -> None:
    with visit(browser, f"{url}runs", "phone") as page:
        questions = listed(page, 5)
        with held(page, "**/v1/runs/*/answer?*") as let_go:
            questions.filter(has_text="bed rest").click()
            let_go.wait()
            page.fill("#text", "cast")
            listed(page, 1)
        settled(page)
        expect(page.locator("#read")).to_be_hidden()
        questions.first.click()
        expect(page.locator("#asked")).to_have_text(CAST)


def test_a_question_is_opened_by_keyboard(browser: Browser, url: str) -> None:
    with visit(browser, f"{url}runs", "phone") as page:
        listed(page, 5).first.focus()
        page.keyboard.press("Enter")
        settled(page)
        assert page.evaluate("document.activeElement.id") == "asked"


def concepts(page: Page, column: int) -> Locator:
    return page.locator(".column").nth(column).locator(".concept")


@pytest.mark.parametrize("view", VIEWS)
def test_the_graph_of_an_answer_is_walked(browser: Browser, url: str, view: str) -> None:
    with visit(browser, url, view) as page:
        page.fill("#question", CAST)
        page.press("#question", "Enter")
        settled(page)
        with arrival(page):
            page.click("#as-graph")
        assert page.inner_text("h1") == CAST
        accessible(page, view)
        picture(page, f"graph-{view}")
        treatment = concepts(page, 1).first
        treatment.focus()
        page.keyboard.press("Enter")
        expect(treatment).to_have_attribute("aria-pressed", "true")
        outcome = page.locator(".column").nth(2).locator(".concept:not(.off)").first
        outcome.click()
        names = [each.locator(".name").inner_text() for each in (treatment, outcome)]
        panel = page.locator("#panel")
        expect(panel.locator("h2")).to_have_text(" → ".join(names))
        first = panel.locator(".studies > li").first
        assert first.locator(".grade").count() == 1 and first.locator("mark").count() >= 1
        assert names[0] in page.inner_text("#said"), "told to who listens"
        accessible(page, view)
        shared = page.url
        page.goto("about:blank")
        page.goto(shared)
        expect(page.locator("#panel h2")).to_have_text(" → ".join(names))
        page.keyboard.press("Escape")
        expect(page.locator(".concept[aria-pressed=true]")).to_have_count(0)
        with arrival(page):
            page.click("#back a")
        assert page.inner_text("#asked") == CAST


def test_a_line_opens_the_studies_that_name_both_its_ends(browser: Browser, url: str) -> None:
    with visit(browser, f"{url}graph") as page:
        page.fill("#name", "low back pain")
        settled(page)
        assert page.get_by_text("Like “low back pain”").is_visible()
        with arrival(page):
            page.locator("#begin li a").first.click()
        ends = page.locator(".line").first.get_attribute("data-ends") or ""
        page.locator(".line .reach").first.dispatch_event("click", {"bubbles": True})
        pressed = page.locator(".concept[aria-pressed=true]")
        expect(pressed).to_have_count(2)
        every = page.locator(".concept")
        named = [every.nth(int(n)).locator(".name").inner_text() for n in ends.split(",")]
        expect(page.locator("#panel h2")).to_have_text(" → ".join(named))
        assert page.locator("#panel .studies > li").count() >= 1
        assert page.evaluate("document.activeElement.id") == "panel"
        accessible(page)


def test_an_entity_that_is_not_there_is_named(browser: Browser, url: str) -> None:
    with visit(browser, f"{url}graph", faults=True) as page:
        accessible(page)
        page.goto(f"{url}graph?entity=nobody")
        settled(page)
        assert page.locator("#fault").is_visible()
        assert "no such entity" in page.inner_text("#fault")
        assert page.locator("#begin li").first.is_visible()
