"""The page: everything is in it, and text of a document stays text."""

from __future__ import annotations

import html
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from srrag.lab.report import page
from srrag.lab.report.page import BenchmarkSection, SeedLine, section
from srrag.lab.report.results import read_results
from srrag.lab.report.view import benches
from tests.unit.lab.report.toy_results import write_toy


@pytest.fixture
def sections(tmp_path: Path) -> list[BenchmarkSection]:
    results = read_results(write_toy(tmp_path))
    shown = benches(results.rows)
    return [section(results, bench, worst=None, resamples=50, seed=0) for bench in shown]


class Seen(HTMLParser):
    """Elements, and the text that is shown."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_asks_for_nothing(sections: list[BenchmarkSection]) -> None:
    text = page.render("<Results> & more", "Three rows.", sections)
    seen = Seen(text)
    assert "img" not in seen.tags and "link" not in seen.tags and "iframe" not in seen.tags
    assert all(address.startswith("#") for address in seen.addresses)
    assert "default-src 'none'" in html.unescape(text)
    assert "NaN" not in text and "<Results> & more" in seen.text
    for told in (
        "srrag evaluate pipeline=srrag", "sha256:c0ffee", "fingerprints", "abc", "torch 2",
        "engine 'gone' is not up", "no question has nuggets", "ComposeAnswer", "0.900",
        "0.800–1.000", "condition, grade and certainty", "+0.400", "0.020", "rules",
    ):  # fmt: skip
        assert told in seen.text, told
    assert text.count('type="text/plain"') == 6, "a packed text for each question of two systems"
    assert seen.text.index("lost/model failed as a whole: engine") < seen.text.index("coverage")


def test_seeds_have_their_spread(sections: list[BenchmarkSection]) -> None:
    seeds = (SeedLine("ours", "0, 1", ("0.900 ± 0.010",)),)
    sections = [replace(each, seeds=seeds) for each in sections]
    assert "0.900 ± 0.010" in Seen(page.render("Results", "Three rows.", sections)).text
