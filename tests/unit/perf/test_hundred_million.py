"""How a root grows: what is drawn is what a corpus would be, and the lines through it hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perf.drawn_corpus import plan_of, words_of
from perf.hundred_million import MARKS, built, exponent, growth, opened, tables, write_page
from srrag.index.words import analyzer


def test_a_small_root_is_built_opened_and_asked(tmp_path: Path) -> None:
    root = tmp_path / "root"
    costs = built(root, plan_of(root, 400, 2, graph=False), 100)
    assert {"vectors", "units", "dense", "tokens", "sparse", "entities", "all"} <= costs.keys()
    assert costs["tokens"]["mb"] > costs["units"]["mb"] > 0
    asked = opened(root)
    assert asked["query_ms"].keys() == {"sparse", "dense", "tokens", "units"}
    assert all(value > 0 for value in asked["query_ms"].values())


def test_words_differ_by_rank_and_are_left_as_they_are() -> None:
    ranks = np.array([[0, 1, 26], [499_999, 25, 675]])
    texts = words_of(ranks)
    words = " ".join(texts).split()
    assert len(set(words)) == ranks.size
    assert analyzer().analyze(" ".join(texts)) == words


def run(windows: int, seconds: float) -> dict[str, Any]:
    cost = {"cpu_s": seconds, "peak_gb": 0.5, "mb": windows / 100}
    return {
        "windows": windows, "build": {"units": cost}, "update_share": {"units": 0.01},
        "open_cpu_s": 0.1, "query_ms": {"sparse": seconds},
    }  # fmt: skip


def test_what_grows_by_a_power_is_foretold() -> None:
    runs = [run(n, 2e-4 * n**1.1) for n in (10_000, 100_000, 1_000_000)]
    assert exponent([10, 100], [1, 100])[0] == pytest.approx(2)
    found = growth(runs)["cpu_s units"]
    assert found["exponent"] == found["of_last_two"] == pytest.approx(1.1)
    assert found["foretold_over_measured"] == pytest.approx(1)
    assert found["100000000"] == pytest.approx(2e-4 * 1e8**1.1, rel=1e-3)


def test_the_page_keeps_what_is_around_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}\nstale\n{MARKS[1]}\nafter\n")
    runs = [run(n, float(n)) for n in (10, 100, 1000)]
    write_page(page, tables(runs))
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "stale" not in text
    assert "| units | 1000.0 | 0.50 | 10.0 | 0.010 | 1.0 | 1.0 |" in text
    page.write_text("nothing")
    with pytest.raises(ValueError, match="has no <!-- growth"):
        write_page(page, "")
