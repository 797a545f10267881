"""`srrag evaluate bench=sample`: a ranking, and its difference from another one."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.evaluate import run
from srrag.config.compose import configure
from srrag.lab.measure.references import resource_path
from srrag.lab.report.results import read_results

SAMPLE = resource_path("pkg://srrag/sample/questions.jsonl")


def evaluate(root: Path, *more: str) -> dict[str, Any]:
    argv = [f"root={root}", "bench=sample", "pipeline=bm25", "resamples=300", *more]
    return run({**configure("evaluate", argv), "command": "test"})


def test_two_pipelines_are_compared_with_p_values(sample_root: Path) -> None:
    summary = evaluate(sample_root, "baseline=dense")
    metrics, other = summary["metrics"], summary["rows"]["dense"]["metrics"]
    assert {"nDCG@10", "MRR@10", "P@10", "miss@10", "coverage@10"} <= set(metrics)
    for name, difference in summary["difference"].items():
        apart = metrics[name]["value"] - other[name]["value"]
        assert abs(difference["value"] - apart) < 2e-4
        assert 0 < difference["p"] <= difference["p_holm"] <= 1
    assert 0 < summary["difference"]["miss@10"]["p_mcnemar"] <= 1
    same = evaluate(sample_root, "baseline=bm25")
    assert all(each["p"] == 1.0 for each in same["difference"].values())


def test_systems_are_called_by_their_pipelines(
    sample_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(sample_root, "baseline=dense", f"out={tmp_path}")
    lines = capsys.readouterr().err.splitlines()
    assert {"bm25", "dense", "bm25 - dense"} <= set(lines)
    first, second = read_results(tmp_path).rows
    assert (first.name, second.name, first.baseline) == ("bm25", "dense", "dense")
    assert (tmp_path / "answers" / "bm25.parquet").exists()
    # What repeats the baseline does not write over the comparison.
    again = configure("evaluate", shlex.split(second.command)[2:])
    assert (again["out"], again["baseline"]) == (None, None)
    assert f"out={tmp_path}" in first.command


def test_questions_without_gold_are_counted_and_kept(
    sample_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    judged = next(row for row in rows if row["gold"])
    others = [{**judged, "query_id": "none", "gold": []}, {"query_id": "lacks", "text": "Why?"}]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (judged, *others)))
    summary = evaluate(sample_root, f"bench.path={path}", f"out={tmp_path / 'out'}")
    assert (summary["questions"], summary["without_gold"], summary["failed"]) == (3, 2, 0)
    found = summary["metrics"]["nDCG@10"]
    assert (found["n"], found["left_out"]) == (1, 2)
    assert "3 questions, without gold 2: left out" in capsys.readouterr().err
    (row,) = read_results(tmp_path / "out").rows
    assert row.questions == 1
    told = pq.read_table(tmp_path / "out" / "questions.parquet").to_pylist()
    left = [each for each in told if each["value"] is None and each["metric"] == "nDCG@10"]
    assert {(each["query_id"], each["reason"]) for each in left} == {
        ("none", "it lacks gold"), ("lacks", "it lacks gold"),
    }  # fmt: skip
