"""The table of docs/scale.md holds for abstracts that are built today."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.scale_stages import MARKS, StageCost, measured, read_table, table
from tests.conftest import REPOSITORY, SHARED
from tests.e2e.command import srrag

ARTICLES = SHARED / "evidence_inference" / "articles.jsonl"
LINEAR = ("parsed", "documents", "chunks", "windows", "triples", "vectors", "tokens", "units")
"""Stages whose bytes grow by the document: a small corpus shows them."""


def test_a_table_is_read_as_it_was_written() -> None:
    costs = [StageCost("windows", 3_450_000, 900_000_000, 1.5), StageCost("units", 0, 10**6, 0.5)]
    text = f"{MARKS[0]}\n{table(1_000_000, costs)}\n{MARKS[1]}"
    assert read_table(text) == {"windows": (3450, 0.9), "units": (0, 0), "all": (0, 0.9)}
    assert "131 M" in text and "0.034" in text


@pytest.mark.slow
@pytest.mark.skipif(not ARTICLES.exists(), reason="needs the abstracts of Evidence Inference")
def test_rows_and_bytes_of_the_page_hold(tmp_path: Path) -> None:
    lines = ARTICLES.read_text("utf-8").splitlines()
    (tmp_path / "few.jsonl").write_text("\n".join(lines[::17]) + "\n", "utf-8")
    root = tmp_path / "root"
    srrag("build", "corpus=jsonl", f"corpus.path={tmp_path / 'few.jsonl'}", f"root={root}")
    told = read_table((REPOSITORY / "docs" / "scale.md").read_text("utf-8"))
    documents, costs = measured(root)
    now = read_table(f"{MARKS[0]}\n{table(documents, costs)}\n{MARKS[1]}")
    for stage in LINEAR:
        for told_of, found in zip(told[stage], now[stage], strict=True):
            assert found == pytest.approx(told_of, rel=0.2), stage
