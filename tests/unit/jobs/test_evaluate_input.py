"""`srrag evaluate`: what is wrong with a benchmark or answers is named, what is lost is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.evaluate import run
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.lab.experiment.evaluate import KINDS
from tests.judged import answers

OTHERS = (
    "support", "picot", "citations", "evidence", "claims", "accuracy", "similarity",
)  # fmt: skip


def evaluate(folder: Path, *arguments: str) -> dict[str, Any]:
    """Judge answers by their nuggets and choices alone."""
    left = [f"bench.judges.{name}=null" for name in OTHERS]
    argv = ["bench=answers", f"out={folder}/out", "resamples=50", *left, *arguments]
    return run({**configure("evaluate", argv), "command": "test"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three questions, one without gold; one run lacks an answer, the other has other questions."""
    rows = [
        {"id": "a", "question": "Q?", "nuggets": ["walking helps"], "condition": "knee"},
        {"id": "b", "question": "R?", "nuggets": ["rest harms"], "condition": "hip"},
        {"id": "c", "question": "S?"},
    ]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = answers({"query_id": "a", "answer": "Walking helps."}, {"query_id": "b", "answer": " "})
    two = answers({"query_id": "a", "answer": "Sit."}, {"query_id": "y"}, {"query_id": "z"})
    pq.write_table(one, tmp_path / "one.parquet")
    pq.write_table(two, tmp_path / "two.parquet")
    return tmp_path


def test_what_does_not_fit_together_is_counted(folder: Path, capsys: Any) -> None:
    summary = evaluate(
        folder, f"bench.path={folder}/gold.jsonl", f"bench.answers={folder}/one.parquet",
        f"bench.baseline_answers={folder}/two.parquet", "bench.by=condition",
    )  # fmt: skip
    assert (summary["questions"], summary["without_gold"]) == (3, 1)
    assert summary["missing"] == {"empty": 1, "not answered": 1}
    baseline = summary["rows"][summary["baseline"]]
    assert baseline["missing"] == {"not answered": 2}
    assert baseline["answers_without_question"] == 2
    coverage = summary["metrics"]["nugget_coverage"]
    assert (coverage["value"], coverage["n"], coverage["left_out"]) == (0.5, 2, 1)
    assert summary["difference"]["nugget_coverage"]["value"] == 0.5
    choice = summary["metrics"]["choice_accuracy"]
    assert (choice["value"], choice["n"]) == (None, 0)
    assert "options" in choice["reason"]
    assert summary["groups"]["knee"]["metrics"]["nugget_coverage"]["value"] == 1.0
    assert summary["groups"]["hip"]["metrics"]["nugget_coverage"]["value"] == 0.0
    said = capsys.readouterr().err
    assert "without gold 1" in said
    assert "answers without question 2" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench.kind=zzz"], ", ".join(KINDS)),
        (["bench=answers", "bench.subset=zzz"], "bench.subset=zzz: .* has no subsets"),
        (["bench.path=nowhere"], "bench.path=nowhere does not exist"),
        (["bench=nli", "bench.path={F}"], "bench.kind=nli reads a file"),
        (["bench=beir", "bench.path={F}/gold.jsonl"], "bench.kind=beir reads a folder"),
        (["bench=beir", "bench.path={F}"], "root= is missing"),
    ],
)
def test_wrong_usage_is_named(folder: Path, arguments: list[str], message: str) -> None:
    argv = [f"bench.path={folder}/gold.jsonl", f"out={folder}/out"]
    given = configure(
        "evaluate", [*argv, *(each.replace("{F}", str(folder)) for each in arguments)]
    )
    with pytest.raises(UsageError, match=message):
        run({**given, "command": "test"})


def test_a_benchmark_needs_its_files_and_cut_offs(folder: Path, sample_root: Path) -> None:
    given = configure("evaluate", ["bench=beir", f"bench.path={folder}", f"root={sample_root}"])
    with pytest.raises(UsageError, match=r"qrels/test\.tsv is missing"):
        run(given)
    with pytest.raises(UsageError, match=r"bench\.k: cut-offs \[0\]"):
        run(configure("evaluate", ["bench=sample", f"root={sample_root}", "bench.k=0"]))


def test_a_ranking_at_other_cut_offs(sample_root: Path) -> None:
    argv = ["bench=sample", f"root={sample_root}", "pipeline=bm25", "bench.k=[4,1]", "resamples=50"]
    metrics = run(configure("evaluate", argv))["metrics"]
    assert {"coverage@1", "coverage@4", "P@1", "miss@4", "recall@100"} <= set(metrics)
    assert metrics["coverage@1"]["value"] <= metrics["coverage@4"]["value"]
    assert metrics["miss@1"]["value"] >= metrics["miss@4"]["value"]
