"""What an evaluation leaves is what a report reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from srrag.config.compose import configure
from srrag.core.schema import HITS
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.experiment.record import Evaluated, record, with_windows
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Scores, compare
from srrag.lab.report.results import read_results
from srrag.storage.store import Store
from tests.unit.lab.report.toy_results import toy_answers, toy_judgements


def scores(*values: float) -> list[Scores]:
    array = np.array(values)
    metric = Metric("coverage", "nuggets in the gold")
    return [Scores(metric, ("q1", "q2"), array, np.ones(2), 2, 0, 1)]


def test_two_systems_with_stored_answers(tmp_path: Path) -> None:
    argv = ["bench=answers", "bench.answers=A", "resamples=50", "baseline=bm25"]
    gold = [{"query_id": f"q{n}", "text": "Q?", "condition": "ACL"} for n in (1, 2, 3)]
    ours, theirs = scores(1.0, 0.5), scores(0.5, 0.5)
    systems = [
        Evaluated("pipeline", argv, toy_answers(), ours, 1.0, judgements=toy_judgements(),
                  abstained=1, missing={"failed: timeout": 1}),
        Evaluated("bm25", argv, toy_answers(), theirs, 1.0),
    ]  # fmt: skip
    difference = compare(ours, theirs, resamples=50, seed=0)
    bench = "answers sample/questions.jsonl"
    record(tmp_path, bench, "rules", gold, systems, difference, resamples=50, seed=0)
    results = read_results(tmp_path)
    first, second = results.rows
    assert first.bench == "answers sample/questions.jsonl"
    assert (first.baseline, second.baseline, second.difference) == ("bm25", None, {})
    assert first.difference["coverage"].value == 0.25 and first.difference["coverage"].p_holm
    assert (first.failed, first.abstained, first.failures[0].query_id) == (1, 1, "q2")
    assert first.command == "srrag evaluate " + " ".join(argv)
    assert first.versions["srrag"] and first.fingerprints == {}
    left = [row for row in results.questions.to_pylist() if row["query_id"] == "q3"]
    assert {row["reason"] for row in left} == {"it lacks nuggets in the gold"}
    assert results.judgements("pipeline") is not None and results.judgements("bm25") is None


def test_a_ranking_is_kept_with_the_texts_of_its_first_windows(sample_root: Path) -> None:
    artifacts = Store(sample_root).artifacts("default")
    names = Units(artifacts["units"]).units["unit_id"].to_pylist()[:12]
    hits = [{"unit_id": n, "score": 1.0, "rank": r} for r, n in enumerate(names, start=1)]
    table = toy_answers().slice(0, 1).select(["query_id", "text", "trace", "reject"])
    kept = with_windows(
        table.append_column("hits", pa.array([hits], HITS)), Place(artifacts=artifacts)
    )
    evidence = kept["evidence"].to_pylist()[0]
    assert [item["unit_id"] for item in evidence] == names[:10]
    assert all(item["text"] for item in evidence)


def test_a_benchmark_is_called_by_the_end_of_its_path() -> None:
    terms = Terms.of(configure("evaluate", ["bench=answers"]))
    for path in ("b.json", "a/b.json", "/x/a/b.json", "pkg://x/a/b.json"):
        named = replace(terms, bench={"kind": "answers", "path": path}).name
        assert named == ("answers b.json" if path == "b.json" else "answers a/b.json")
