"""The page at `/` in a real browser: asked, answered, its citations opened."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import CHROMIUM, Tab, browser
from tests.unit.serve.serving import CAST, listening, settings

pytestmark = pytest.mark.e2e


class Address(str):
    """An address that a tab opens as it does a file."""

    def as_uri(self) -> str:
        return str(self)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(sample_root: Path) -> Iterator[str]:
    with listening(settings(sample_root, "also=[bm25]")) as url:
        yield url


def visit(tab: Tab, url: str, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
    tab.faults.clear()
    tab.requests.clear()
    address: Any = Address(url)
    tab.open(address, width, height, prefers_color_scheme=scheme)


def until(tab: Tab, condition: str) -> None:
    ends = time.monotonic() + 30
    while not tab.run(f"!!({condition})"):
        assert time.monotonic() < ends, (condition, tab.faults, tab.run("document.body.innerText"))
        time.sleep(0.05)


def ask(tab: Tab, question: str) -> None:
    tab.run(f"at('question').value = {json.dumps(question)}, at('question').focus()")
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 2}
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, **key)


def picture(tab: Tab, name: str) -> None:
    if folder := os.environ.get("SRRAG_PICTURES"):
        tab.screenshot(Path(folder, f"{name}.png"))


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_question_is_answered_and_its_citation_opens_the_evidence(
    tab: Tab, url: str, width: int, height: int, scheme: str
) -> None:
    visit(tab, url, width, height, scheme)
    until(tab, "at('pipeline').options.length == 2")
    ask(tab, CAST)
    until(tab, "document.querySelector('.cite')")
    assert "ten days" in tab.run("at('answer').innerText")
    until(tab, "at('progress').textContent == ''")
    cards = tab.run("document.querySelectorAll('#evidence details').length")
    assert cards == tab.run("document.querySelectorAll('#evidence .grade').length") > 3
    tab.run("document.querySelector('.cite').click()")
    opened = tab.run("document.activeElement.closest('details[open]').innerText")
    assert "guideline" in opened and "2" in opened
    assert tab.run("document.querySelector('details[open] .grade').textContent") == "A"
    assert "ten days" in tab.run("document.querySelector('details[open] mark').textContent")
    picture(tab, f"page-{scheme}-{width}")
    tab.run("at('why').open = true, at('why').scrollIntoView()")
    assert tab.run("at('found').rows.length") == cards + 1
    assert "RerankMaxSim" in tab.run("at('steps').innerText")
    picture(tab, f"why-{scheme}-{width}")
    assert tab.run("document.documentElement.scrollWidth") <= width, "nothing runs off the page"
    assert tab.faults == []
    assert all(request.startswith((url, "data:")) for request in tab.requests), "nothing from afar"


def test_examples_and_faults(tab: Tab, url: str) -> None:
    visit(tab, url)
    tab.run("document.querySelector('#examples button').click()")
    until(tab, "document.querySelector('.cite')")
    ask(tab, "?!")
    until(tab, "!at('fault').hidden")
    assert "no word" in tab.run("at('fault').textContent")
    assert tab.run("at('result').hidden")


def test_what_is_asked_is_never_read_as_html(tab: Tab, url: str) -> None:
    visit(tab, url)
    ask(tab, "<img src=x onerror='document.title=1'> ankle sprain cast <script>1</script>")
    until(tab, "!at('result').hidden && at('progress').textContent == ''")
    assert tab.run("document.title") == "SR-RAG"
    assert tab.run("document.querySelectorAll('img, main script').length") == 0


def test_a_key_is_asked_for_where_one_is_needed(
    tab: Tab, sample_root: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()}\n")
    with listening(settings(sample_root, "pipeline=bm25", f"api_keys={keys}")) as url:
        visit(tab, url)
        until(tab, "!at('keys').hidden")
        ask(tab, CAST)
        until(tab, "!at('fault').hidden")
        tab.run("at('key').value = 'secret'")
        ask(tab, CAST)
        until(tab, "document.querySelector('.cite')")


def test_quotes_mismatches_and_sources_of_a_document_are_shown_as_text(tab: Tab, url: str) -> None:
    text = "𝛂 <b>Boys</b> improved. Girls did not."
    item: dict[str, Any] = {
        "number": 1, "unit_id": "u", "doc_id": "d", "title": "<img src=x onerror=alert(1)>",
        "section": "", "text": text, "year": 2020, "grade": "C", "study": "randomised trial",
        "source_id": "s", "pmid": "12345",
        "quotes": [{"char_start": 2, "char_end": 23, "text": text[2:23]}],
        "mismatches": [{"part": "P", "asked": "adults", "found": "boys"}],
    }  # fmt: skip
    reply = {
        "answer": "Boys improved. [1][7]", "notice": "It is about boys.", "model": "m",
        "pipeline": "p", "version": "v", "trace": [], "why": [],
        "sentences": [{"text": "Boys improved.", "citations": [1]}],
        "evidence": [item, {**item, "number": 2, "pmid": "javascript:alert(1)"}],
    }  # fmt: skip
    visit(tab, url)
    tab.run(f"show({json.dumps(reply)})")
    assert tab.run("at('notice').innerText") == "It is about boys."
    assert tab.run("document.querySelector('#e1 mark').textContent") == text[2:23]
    assert "adults; here: boys" in tab.run("document.querySelector('#e1 .mismatch').textContent")
    link = "document.querySelector('#e1 a')"
    assert tab.run(f"{link}.href") == "https://pubmed.ncbi.nlm.nih.gov/12345/"
    assert tab.run(f"{link}.rel") == "noopener noreferrer"
    assert tab.run("document.querySelectorAll('a').length") == 1, "only numbers become links"
    assert tab.run("document.querySelectorAll('#evidence img, #evidence b').length") == 0
    assert "<img" in tab.run("document.querySelector('#e1 .title').textContent")
    tab.run("document.querySelectorAll('.cite')[1].click()")
    assert tab.faults == [], "a citation without evidence does nothing"
