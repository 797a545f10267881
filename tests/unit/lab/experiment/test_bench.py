"""Benchmarks: what they keep and are called, questions kept apart, limits, names of systems."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.provenance import KEY, Fitted, fitted_on, read_fitted
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units
from srrag.lab.experiment.answers import read_gold
from srrag.lab.experiment.bench import in_sample, split
from srrag.lab.experiment.evaluate import baseline_of, readable, system_names
from srrag.lab.experiment.read_bench import read_bench
from srrag.lab.experiment.running import Terms
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Scores, compare, figure
from srrag.storage.store import Store
from tests.unit.lab.report.toy_results import toy_answers


def test_a_ranking_is_kept_with_the_texts_of_its_first_windows(sample_root: Path) -> None:
    artifacts = Store(sample_root).artifacts("default")
    names = Units(artifacts["units"]).units["unit_id"].to_pylist()[:12]
    hits = [{"unit_id": n, "score": 1.0, "rank": r} for r, n in enumerate(names, start=1)]
    table = toy_answers().slice(0, 1).select(["query_id", "text", "trace", "reject"])
    bench = read_bench(Terms.of(configure("evaluate", ["bench=sample", f"root={sample_root}"])))
    ranked = table.append_column("hits", pa.array([hits], HITS))
    kept = bench.kept(ranked, Place(artifacts=artifacts))
    evidence = kept["evidence"].to_pylist()[0]
    assert [item["unit_id"] for item in evidence] == names[:10]
    assert all(item["text"] for item in evidence)


def test_a_benchmark_is_called_by_the_end_of_its_path() -> None:
    terms = Terms.of(configure("evaluate", ["bench=answers"]))
    for path in ("b.json", "a/b.json", "/x/a/b.json", "pkg://x/a/b.json"):
        named = replace(terms, bench={"kind": "answers", "path": path}).name
        assert named == ("answers b.json" if path == "b.json" else "answers a/b.json")


QUESTIONS = [{"query_id": f"q{n}", "text": f"Question {n}?"} for n in range(4)]
HOW: dict[str, Any] = {"resamples": 200, "seed": 0}


@dataclass(frozen=True, kw_only=True)
class Learned(Step):
    """A step with a learned part."""

    name: str
    seen: tuple[str, ...] = ()
    known: bool = True

    def fitted(self) -> tuple[Fitted, ...]:
        block = {KEY: fitted_on(name=self.name, command="fit", questions=self.seen)}
        return (read_fitted(block if self.known else {}, self.name),)

    def open(self, at: Place) -> Function:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Holding(Step):
    """A step that holds another one."""

    inner: Step
    writes = pa.schema([])

    def open(self, at: Place) -> Function:
        raise NotImplementedError


def scores(values: list[float]) -> Scores:
    names = tuple(str(row["query_id"]) for row in QUESTIONS)
    size = len(values)
    return Scores(Metric("m", "gold"), names, np.array(values), np.ones(size), size, 0, 0)


def test_questions_that_a_nested_part_saw_are_kept_apart() -> None:
    step = Holding(inner=Learned(name="betr", seen=("question 0", "Question 1?", "another")))
    seen = in_sample([step], QUESTIONS, "apart")
    assert seen.parts == {"betr": {"q0", "q1"}}
    kept, apart = split([scores([1.0, 1.0, 0.0, 1.0])], seen)
    assert figure(kept[0], **HOW)["value"] == 0.5
    told = seen.stated(apart, **HOW)
    assert (told.questions, told.parts, told.metrics["m"].value) == (2, {"betr": 2}, 1.0)
    assert seen.said() == ["2 of 4 questions are in-sample, apart: betr 2"]


def test_a_headline_over_questions_that_were_all_seen_is_refused() -> None:
    seen = in_sample([Learned(name="filter", seen=tuple(q["text"] for q in QUESTIONS))],
                     QUESTIONS, "apart")  # fmt: skip
    kept, _ = split([scores([1.0] * 4)], seen)
    told = figure(kept[0], **HOW)
    assert told["value"] is None and "fitted on by filter" in told["reason"]
    assert compare(kept, kept, **HOW)["m"]["value"] is None


def test_it_counts_when_told_and_that_is_said() -> None:
    seen = in_sample([Learned(name="filter", seen=("Question 3?",))], QUESTIONS, "allow")
    kept, apart = split([scores([0.0, 0.0, 0.0, 1.0])], seen)
    assert (figure(kept[0], **HOW)["value"], apart) == (0.25, [])
    assert seen.said() == ["1 of 4 questions are in-sample, counted (in_sample=allow): filter 1"]
    with pytest.raises(UsageError, match="in_sample=yes: there are apart, allow"):
        in_sample([], QUESTIONS, "yes")


def test_systems_that_are_compared_count_the_same_questions() -> None:
    parts = [
        Learned(name="a", seen=("Question 0?",)),
        Learned(name="b", seen=("Question 1?",), known=True),
        Learned(name="c", known=False),
    ]
    both = in_sample(parts, QUESTIONS, "apart")
    assert both.apart == {"q0", "q1"}
    assert both.unknown == ("c",)
    assert both.said()[-1] == "not known what it was fitted on: c"


def test_a_ranking_whose_questions_were_all_seen_is_printed_without_a_figure() -> None:
    step = Learned(name="betr", seen=tuple(row["text"] for row in QUESTIONS))
    seen = in_sample([step], QUESTIONS, "apart")
    kept, _ = split([scores([1.0, 1.0, 0.0, 1.0])], seen)
    row = {"failed": 0, "metrics": {"nDCG@10": figure(kept[0], **HOW)}}
    told = readable({"questions": 4, "without_gold": 0, "rows": {"srrag": row}})
    assert seen.reason and seen.reason in told and "1.0000" not in told


def test_of_each_subset_the_same_questions_are_kept_in_their_order(tmp_path: Path) -> None:
    for name, count in (("big", 40), ("small", 3)):
        rows = (
            {"id": n, "set": name, "question": f"{name} {n}?", "options": {"A": "x", "B": "y"},
             "answer": "A"}
            for n in range(count)
        )  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def kept(limit: object) -> list[str]:
        gold, faulty = read_gold({"subset": None, "limit": limit}, tmp_path)
        assert not faulty
        return [row["query_id"] for row in gold]

    every, few, fewer = kept(None), kept(10), kept(4)
    assert len(every) == 43
    assert [len([q for q in few if q.startswith(name)]) for name in ("big", "small")] == [10, 3]
    assert few == [query for query in every if query in few]
    assert {*fewer} < {*few} and few[:10] != every[:10]
    with pytest.raises(UsageError, match=r"bench\.limit=0: a whole number, at least 1"):
        kept(0)


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ([], ("hybrid", "")),
        (["pipeline=dense", "pipeline=bm25", "baseline=srrag"], ("bm25", "srrag")),
        (["+answering.Rules.select.k=4", "baseline=hybrid"], ("hybrid", "hybrid (2)")),
        (["bench.answers=a/one.parquet"], ("one", "")),
        (["bench.answers=a/one.parquet", "baseline=bm25"], ("one", "bm25")),
        (["bench.answers=a/x.parquet", "bench.baseline_answers=b/x.parquet"],
         ("a/x.parquet", "b/x.parquet")),
        (["bench.answers=a/x.parquet", "bench.baseline_answers=a/x.parquet"],
         ("a/x.parquet", "a/x.parquet (2)")),
    ],
)  # fmt: skip
def test_names(argv: list[str], names: tuple[str, ...]) -> None:
    config = configure("evaluate", ["bench=answers", *argv])
    assert system_names(config["bench"], config["overrides"], config["baseline"]) == names


def test_a_baseline_is_repeated_alone() -> None:
    argv = ["bench=answers", "root=R", "out=O", "bench.answers=A", "engine=rules", "baseline=bm25"]
    config = baseline_of(configure("evaluate", argv))
    assert config["overrides"] == ["bench=answers", "root=R", "engine=rules", "pipeline=bm25"]
