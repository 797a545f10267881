from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.evaluate import run
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.lab.experiment.evaluate import KINDS
from srrag.lab.measure.references import resource_path
from srrag.lab.report.results import read_results
from tests.judged import answers

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


OTHERS = (
    "support", "picot", "citations", "evidence", "claims", "accuracy", "similarity",
)  # fmt: skip


def judged(folder: Path, *arguments: str) -> dict[str, Any]:
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
    summary = judged(
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
