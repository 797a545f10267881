"""Faithfulness and answer accuracy agree with the package ragas on identical judgements.

Skipped where the package is absent: `pip install ragas "langchain-community<0.4"`, 0.4.3 was tried.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.lab.judges.accuracy import JudgeAccuracy
from srrag.lab.judges.citations import FAITHFULNESS, MeasureCitations
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import score
from tests.judged import answered, case, claim, table

NUM_ANSWERS = 30


class Judging:
    """What ragas takes for a model: it gives the next of its answers, in the shape asked for."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)

    async def agenerate(self, prompt: str, response_model: Any) -> Any:
        return response_model.model_validate(self.answers.pop(0))


def theirs(name: str, model: Judging, **sample: Any) -> float:
    """The value of a metric of ragas."""
    metrics = pytest.importorskip("ragas.metrics.collections", exc_type=ImportError)
    base = pytest.importorskip("ragas.llms.base").InstructorBaseRagasLLM
    base.register(Judging)
    metric = getattr(metrics, name)(llm=model)
    return float(asyncio.run(metric.ascore(user_input="Asked?", response="Said.", **sample)).value)


def shares(metrics: Sequence[Metric], judged: pa.Table) -> list[float]:
    """The value of each question."""
    (found,) = score(metrics, judged, [str(n) for n in range(NUM_ANSWERS)])
    return [float(value) for value in found.parts / found.wholes]


def test_faithfulness_is_that_of_ragas() -> None:
    draw = random.Random(0)
    verdicts = [
        [draw.random() < 0.6 for _ in range(draw.randint(1, 9))] for _ in range(NUM_ANSWERS)
    ]
    expected = [
        theirs(
            "Faithfulness",
            Judging(
                {"statements": [f"S{n}" for n, _ in enumerate(each)]},
                {
                    "statements": [
                        {"statement": f"S{n}", "reason": "", "verdict": int(supported)}
                        for n, supported in enumerate(each)
                    ]
                },
            ),
            retrieved_contexts=["Evidence."],
        )
        for each in verdicts
    ]
    claims = [
        [claim(f"S{n}", verdict="full" if each else "none") for n, each in enumerate(flags)]
        for flags in verdicts
    ]
    cases = [case(query_id=str(n), claims=each) for n, each in enumerate(claims)]
    judged = MeasureCitations().open(Place())(table(*cases))
    found = shares([FAITHFULNESS], judged)
    assert found == pytest.approx(expected)
    print(f"faithfulness of {NUM_ANSWERS} answers: ragas {sum(expected) / NUM_ANSWERS:.6f}, "
          f"here {sum(found) / NUM_ANSWERS:.6f}")  # fmt: skip


def test_answer_accuracy_is_that_of_ragas() -> None:
    draw = random.Random(1)
    words = ("none", "partial", "full")
    ratings = [(draw.randrange(3), draw.randrange(3)) for _ in range(NUM_ANSWERS)]
    expected = [
        theirs(
            "AnswerAccuracy",
            Judging({"rating": 2 * first}, {"rating": 2 * second}),
            reference="Known.",
        )
        for first, second in ratings
    ]
    answers = [{"reason": "", "verdict": words[each]} for pair in ratings for each in pair]
    cases = [case(query_id=str(number)) for number in range(NUM_ANSWERS)]
    judge = JudgeAccuracy(trials=1)
    found = shares(judge.metrics, answered(judge, table(*cases), *answers))
    assert found == pytest.approx(expected)
    print(f"accuracy of {NUM_ANSWERS} answers: ragas {sum(expected) / NUM_ANSWERS:.6f}, "
          f"here {sum(found) / NUM_ANSWERS:.6f}")  # fmt: skip
