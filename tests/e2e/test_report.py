"""`srrag report` by the command, and its page in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.report import run
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from tests.e2e.browser import CHROMIUM, Tab, browser
from tests.e2e.command import fault, srrag
from tests.unit.lab.report.toy_results import HOSTILE, write_toy

pytestmark = pytest.mark.e2e

FOLD = "document.querySelectorAll('details.questions')[1]"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy's report, made by the command."""
    folder = write_toy(tmp_path_factory.mktemp("results"))
    summary, _ = srrag("report", f"results={folder}")
    assert summary["failed_rows"] == ["lost/model"]
    out = folder / "report"
    assert summary["html_bytes"] == (out / "report.html").stat().st_size
    return out


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def visit(tab: Tab, report: Path, width: int = 1280, scheme: str = "light") -> None:
    tab.faults.clear()
    tab.requests.clear()
    tab.open(report / "report.html", width, 900, prefers_color_scheme=scheme)


def until(tab: Tab, condition: str) -> None:
    ends = time.monotonic() + 30
    while not tab.run(f"!!({condition})"):
        assert time.monotonic() < ends, (condition, tab.faults)
        time.sleep(0.05)


def press(tab: Tab, key: str, code: int) -> None:
    for kind in ("keyDown", "keyUp"):
        text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
        tab.call(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key,
            windowsVirtualKeyCode=code, **text,
        )  # fmt: skip


@pytest.mark.parametrize("width", [1280, 380])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_question_is_opened_and_told(tab: Tab, report: Path, width: int, scheme: str) -> None:
    visit(tab, report, width, scheme)
    tab.run(f"{FOLD}.open = true")
    until(tab, f"{FOLD}.querySelectorAll('.list > li').length == 3")
    assert "timeout" in tab.run(f"{FOLD}.querySelector('.state').textContent"), "failures first"
    tab.run(f"{FOLD}.querySelectorAll('.list > li > details').forEach(d => d.open = true)")
    until(tab, f"{FOLD}.querySelectorAll('.body h4').length > 8")
    told = tab.run(f"{FOLD}.textContent")
    for part in ("dense on guidelines #1", "SearchSparse", "not judged: timeout", "It helps",
                 "no answer in 60 s", "no statement", "relevant"):  # fmt: skip
        assert part in told, part
    assert tab.run("document.documentElement.scrollWidth") <= width, "nothing runs off the page"
    assert tab.faults == []
    assert all(request.startswith(("file:", "blob:", "data:")) for request in tab.requests)


def test_text_of_documents_is_never_read_as_html(tab: Tab, report: Path) -> None:
    visit(tab, report)
    tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    until(tab, "document.querySelectorAll('.list > li').length == 6")
    tab.run("document.querySelectorAll('.list details').forEach(d => d.open = true)")
    until(tab, "document.querySelectorAll('.body .evidence li').length == 2")
    assert HOSTILE.split("\u2028")[0] in tab.run("document.querySelector('.body').parentNode"
                                                 ".parentNode.parentNode.textContent")  # fmt: skip
    assert tab.run("document.title") == "Results"
    assert tab.run("document.querySelectorAll('img, main b, main script').length") == 0
    assert tab.run("[...document.querySelectorAll('.evidence a')].map(a => a.href)") == [
        "https://pubmed.ncbi.nlm.nih.gov/123/"
    ], "only numbers become links"


def test_it_is_used_by_keyboard(tab: Tab, report: Path) -> None:
    visit(tab, report)
    names = "[...document.querySelector('.systems tbody').rows].map(r => r.cells[0].innerText)"
    press(tab, "Tab", 9)  # the table scrolls, so it takes the focus before what stands in it
    for _ in range(2):
        press(tab, "Tab", 9)
    assert tab.run("document.activeElement.textContent") == "coverage"
    press(tab, "Enter", 13)
    assert [n.split()[0] for n in tab.run(names)] == ["ours", "plain", "lost/model"]
    assert tab.run("document.activeElement.closest('th').ariaSort") == "descending"
    press(tab, "Enter", 13)
    assert [n.split()[0] for n in tab.run(names)] == ["plain", "ours", "lost/model"]
    tab.run(f"{FOLD}.querySelector('summary').focus()")
    press(tab, "Enter", 13)
    until(tab, f"{FOLD}.querySelectorAll('.list > li').length == 3")
    tab.run(f"{FOLD}.querySelectorAll('.list summary')[1].focus()")
    press(tab, "Enter", 13)
    until(tab, "document.querySelector('.cite')")
    tab.run("document.querySelector('.cite').focus()")
    press(tab, "Enter", 13)
    assert tab.run("document.activeElement.closest('details').dataset.number") == "1"
    assert tab.faults == []


def test_a_folder_that_is_cut_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    folder = write_toy(tmp_path / "toy")
    (folder / "gold.parquet").write_bytes(b"cut")
    assert "gold.parquet is not what was written" in fault("report", f"results={folder}", code=2)
    assert not (folder / "report").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["metrics=[F1]"], "metrics: no row has 'F1'; there are coverage, nuggets"),
        (["metrics=3"], "metrics=3: a list of metrics"),
        (["worst=some"], "worst=some: a whole number, at least 0"),
        (["worst=-1"], "worst=-1: a whole number, at least 0"),
        (["resamples=0"], "resamples=0: a whole number, at least 1"),
        (["seed=x"], "seed=x: a whole number, at least 0"),
        (["results=/nowhere"], "results=/nowhere: there is no such folder"),
    ],
)
def test_wrong_usage_names_the_key(tmp_path: Path, settings: list[str], message: str) -> None:
    folder = write_toy(tmp_path / "toy")
    config = configure("report", [f"results={folder}", *settings])
    with pytest.raises(UsageError, match=re.escape(message)):
        run(config)
    assert not (folder / "report").exists()
