from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.errors import UsageError
from srrag.core.provenance import KEY, Fitted, fitted_on, read_fitted
from srrag.core.step import Function, Place, Step
from srrag.lab.experiment.bench import in_sample, split
from srrag.lab.experiment.evaluate import readable
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Scores, compare, figure

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
