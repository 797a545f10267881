"""The table of docs/scale.md holds for abstracts that are built today."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perf.scale import (
    ABSTRACT_TOKENS,
    FULL_TEXTS,
    MARKS,
    PROMPT_FIXED,
    PUBMED,
    StageCost,
    measured,
    nodes,
    page_of,
    read_table,
    replaced,
    stage_table,
)
from tests.conftest import NO_SHARED, REPOSITORY, SHARED
from tests.e2e.command import srrag

ARTICLES = SHARED / "evidence_inference" / "articles.jsonl"
LINEAR = ("parsed", "documents", "chunks", "windows", "triples", "vectors", "tokens", "units")
"""Stages whose bytes grow by the document: a small corpus shows them."""


def test_a_table_is_read_as_it_was_written() -> None:
    costs = [StageCost("windows", 3_450_000, 900_000_000, 1.5), StageCost("units", 0, 10**6, 0.5)]
    text = f"{MARKS[0]}\n{stage_table(1_000_000, costs)}\n{MARKS[1]}"
    found = {name: (cost.rows, cost.bytes) for name, cost in read_table(text).items()}
    assert found == {"windows": (3450, 900_000), "units": (0, 0), "all": (0, 900_000)}
    assert "131 M" in text and "0.034" in text


def test_what_follows_from_the_table_stands_on_the_page() -> None:
    """`python -m perf.scale` writes it: no figure of the page is kept up by hand."""
    page = (REPOSITORY / "docs" / "scale.md").read_text("utf-8")
    assert page_of(page) == page
    rules = read_table(page)["triples"].seconds * 38_000 / 3600
    assert f"| CPU hours, the same by rules | {rules:,.0f} |" in page


def test_tokens_out_are_those_that_a_model_wrote() -> None:
    rows = json.loads((REPOSITORY / "results" / "extraction-model.json").read_text("utf-8"))["rows"]
    wrote = {row["name"]: row["value"] for row in rows if row["unit"] == "tokens out"}
    read = {row["name"]: row["value"] for row in rows if row["unit"] == "tokens in"}
    calls = {row["name"]: row["value"] for row in rows if row["unit"] == "calls"}
    for corpus, name in (
        (PUBMED, "60 other abstracts"),
        (PUBMED, "40 more abstracts, 10 of them read whole"),
        (FULL_TEXTS, "6 full texts"),
    ):
        text = read[name] - calls[name] * PROMPT_FIXED
        assert wrote[name] / text == pytest.approx(corpus.out_per_in, rel=0.1), name


def test_one_host_is_full_where_the_page_says() -> None:
    page = (REPOSITORY / "docs" / "scale.md").read_text("utf-8")
    (told,) = re.findall(r"a core a call \| \*\*(\d+) nodes\*\*", page)
    assert nodes(PUBMED, int(told))["hosts needed"] == "1.0"


def test_a_page_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="the page has no <!-- stages -->"):
        replaced("no table", MARKS, "told")


@pytest.mark.slow
@pytest.mark.skipif(not ARTICLES.exists(), reason=NO_SHARED)
def test_an_estimate_reads_and_writes_as_much_as_the_page_says(tmp_path: Path) -> None:
    lines = ARTICLES.read_text("utf-8").splitlines()[::34]
    (few := tmp_path / "few.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    found, _ = srrag(
        "build", "corpus=jsonl", f"corpus.path={few}", f"root={tmp_path / 'root'}", "plan=graph",
        "estimate=true", "engine=http", "engine.model=toy", "engine.tokenizer=utf8",
        "engine.base_url=http://127.0.0.1:9/v1",
    )  # fmt: skip
    text = sum(
        len(f"{section['heading']}{section['text']}".encode()) / 4
        for line in lines
        for section in json.loads(line)["sections"]
    )
    assert text / len(lines) == pytest.approx(ABSTRACT_TOKENS, rel=0.05)
    assert (found["tokens_in"] - text) / found["calls"] == pytest.approx(PROMPT_FIXED, rel=0.05)
    # The rules' answers, which an estimate counts, are shorter than a model's.
    assert 1 < PUBMED.out_per_in / (found["tokens_out"] / text) < 1.6


@pytest.mark.slow
@pytest.mark.skipif(not ARTICLES.exists(), reason=NO_SHARED)
def test_rows_and_bytes_of_the_page_hold(tmp_path: Path) -> None:
    lines = ARTICLES.read_text("utf-8").splitlines()
    (tmp_path / "few.jsonl").write_text("\n".join(lines[::34]) + "\n", "utf-8")
    root = tmp_path / "root"
    few = f"corpus.path={tmp_path / 'few.jsonl'}"
    srrag("build", "corpus=jsonl", few, f"root={root}", "plan=graph", "stages.names=null")
    told = read_table((REPOSITORY / "docs" / "scale.md").read_text("utf-8"))
    documents, costs = measured(root)
    now = read_table(f"{MARKS[0]}\n{stage_table(documents, costs)}\n{MARKS[1]}")
    for stage in LINEAR:
        assert now[stage].rows == pytest.approx(told[stage].rows, rel=0.2), stage
        assert now[stage].bytes == pytest.approx(told[stage].bytes, rel=0.2), stage
