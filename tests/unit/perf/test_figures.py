"""The page of figures is what results/ holds, and each figure says where it is from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf.figures import PAGE, number, page, read_table, section
from tests.conftest import REPOSITORY

ROW = {"name": "bm25", "value": 0.5, "interval": [0.4, 0.6], "unit": "nDCG@10", "kind": "blind",
       "command": "srrag …", "commit": "abc", "date": "2026-01-01", "machine": "one"}  # fmt: skip


def table(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps({"title": "A", "about": "b.", "rows": rows}), "utf-8")
    return path


def test_the_page_is_what_the_results_say() -> None:
    assert PAGE.read_text("utf-8") == page(REPOSITORY / "results")
    assert PAGE.read_text("utf-8").count("\n## ") == len(
        list(PAGE.parents[1].glob("results/*.json"))
    )


def test_the_docs_say_how_many_answers_of_later_rounds_misled() -> None:
    """116 questions beside peers (E in two forms), and 15."""
    misled = {
        row["name"]: row["value"]
        for name in ("systems-peers", "systems-played")
        for row in json.loads((REPOSITORY / f"results/{name}.json").read_text("utf-8"))["rows"]
        if row["unit"] == "misleading" and "hybrid_maxsim" in row["name"]
    }
    for name in ("clinicians.md", "model.md"):
        told = (REPOSITORY / "docs" / name).read_text("utf-8")
        assert f"{sum(misled.values())} of 131" in told, name


@pytest.mark.parametrize("fault", [{"command": ""}, {"kind": "sure"}, {"more": 1}])
def test_a_figure_without_its_origin_is_refused(tmp_path: Path, fault: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^a\.json, row 2: "):
        read_table(table(tmp_path, ROW, ROW | fault))


def test_digits_are_kept() -> None:
    shown = ["0.830", "-0.05", "12345", "0", "1.000", "7.3e-21"]
    assert [number(text) for text in shown] == [".830", "−.05", "12,345", "0", "1.000", "7.3e-21"]


def test_units_are_columns_and_other_origins_are_named(tmp_path: Path) -> None:
    recall, tuned = ROW | {"unit": "recall", "interval": None}, ROW | {"kind": "tuned"}
    text = section(
        read_table(table(tmp_path, ROW, recall, tuned, ROW | {"unit": "s", "date": "x"}))
    )
    assert "||nDCG@10|recall|from|" in text
    assert "|bm25|.5 [.4, .6]|.5|1|" in text and "|bm25|.5 [.4, .6]||2|" in text
    assert "2. *tuned*: `srrag …` (abc, 2026-01-01, one)" in text
    assert "||s|\n" in text, "what shares no unit begins a grid"
