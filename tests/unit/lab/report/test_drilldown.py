"""Which questions are shown first, and that all of what is told of them is there."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.figures import Figure
from srrag.core.schema import HITS
from srrag.lab.report.drilldown import Drilldown, drilldown
from srrag.lab.report.results import Results, read_results, scored, write_answers, write_results
from srrag.lab.report.view import benches
from tests.unit.lab.report.toy_results import (
    ANSWERS,
    HOSTILE,
    toy_answers,
    toy_gold,
    toy_rows,
    write_toy,
)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return read_results(write_toy(tmp_path))


def unpack(packed: str) -> dict[str, Any]:
    detail: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed), -zlib.MAX_WBITS))
    return detail


def of(results: Results, number: int, worst: int | None = None) -> Drilldown:
    (bench,) = benches(results.rows)
    return drilldown(results, bench, bench.rows[number], worst)


def test_failures_come_first_then_the_largest_losses(results: Results) -> None:
    ours = of(results, 1)
    assert [each.query_id for each in ours.shown] == ["q2", "q1", "q3"]
    assert [each.state for each in ours.shown] == ["failed: timeout", "", "abstained"]
    assert (ours.shown[1].value, ours.shown[1].baseline) == (0.8, 1.0)
    assert ours.said == "all 3 questions, 1 failed, coverage"
    assert of(results, 1, worst=2).said == "2 of 3 questions, 1 failed, coverage"
    assert [each.query_id for each in of(results, 0).shown] == ["q2", "q1", "q3"], "lowest first"


def test_losses_on_a_metric_of_which_less_is_better(tmp_path: Path) -> None:
    figure = Figure(value=0.5, better="lower")
    rows = [row.model_copy(update={"metrics": {"miss@10": figure}}) for row in toy_rows()[:2]]
    rows[1] = rows[1].model_copy(update={"failures": (), "failed": 0})
    names = ["a", "b", "c"]
    scores = [
        scored("plain", "miss@10", names, np.array([0.0, 1.0, 1.0])),
        scored("ours", "miss@10", names, np.array([1.0, 1.0, 0.0])),
    ]
    write_results(tmp_path, rows, scores, toy_gold())
    shown = of(read_results(tmp_path), 1).shown
    assert [each.query_id for each in shown] == ["a", "b", "c"]


def test_a_question_is_told_whole(results: Results) -> None:
    told = {each.query_id: unpack(each.packed) for each in of(results, 1).shown}
    first = told["q1"]
    assert first["answer"].startswith(HOSTILE) and first["reference"] == "Yes."
    assert first["nuggets"] == ["It helps"] and first["strata"]["condition"] == "ACL"
    assert [item["relevant"] for item in first["evidence"]] == [True, False]
    assert first["sentences"][0]["citations"] == [1]
    assert first["trace"][0]["step"] == "SearchSparse"
    assert first["why"][0]["found"][0]["channel"] == "dense"
    assert [each["value"] for each in first["judged"]] == [1.0, None]
    assert first["judged"][1]["reason"] == "not judged: timeout"
    assert first["values"] == [["coverage", 0.8, 1.0, ""]]
    assert told["q2"]["reject"]["detail"] == "no answer in 60 s"
    assert told["q3"]["values"] == [["coverage", None, None, "no statement"]]
    assert unpack(of(results, 0).shown[0].packed)["kept"] is False


def test_of_a_ranking_there_are_its_first_windows(tmp_path: Path) -> None:
    hits = [[{"unit_id": f"u{n}", "score": 1.0 / n, "rank": n} for n in range(1, 60)]]
    table = pa.table({"query_id": ["q1"], "text": ["Q?"], "hits": pa.array(hits, HITS)})
    write_answers(tmp_path, "plain", table)
    write_results(tmp_path, toy_rows()[:1], [], toy_gold())
    told = unpack(of(read_results(tmp_path), 0).shown[0].packed)
    assert told["ranking"] and told["evidence"][0]["unit_id"] == "u1"
    assert len(told["evidence"]) == 20


def test_what_an_answer_cites_is_shown_however_late_it_stands(tmp_path: Path) -> None:
    (row, *_) = toy_answers().to_pylist()
    piece = {**row["evidence"][0], "standing": ""}
    pieces = [{**piece, "evidence_id": f"e{n}", "doc_id": f"d{n}"} for n in range(1, 26)]
    pieces[22]["standing"] = "concern"
    cites = [{"text": "It works.", "evidence_ids": ["e23"]}]
    told = {**row, "answer": "It works. [23]", "evidence": pieces, "sentences": cites}
    write_answers(tmp_path, "plain", pa.Table.from_pylist([told], schema=ANSWERS))
    write_results(tmp_path, toy_rows()[:1], [], toy_gold())
    shown = {each.query_id: each for each in of(read_results(tmp_path), 0).shown}
    detail = unpack(shown["q1"].packed)
    assert detail["sentences"][0]["citations"] == [23]
    assert any("[23]: under an expression of concern" in each["text"] for each in detail["notes"])
    assert [item["number"] for item in detail["evidence"]] == [*range(1, 21), 23]
