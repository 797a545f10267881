"""Faithfulness and answer accuracy agree with the package ragas on identical judgements.

Skipped where the package is absent: `pip install ragas "langchain-community<0.4"`, 0.4.3 was tried.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from srrag.lab.judges.accuracy import JudgeAccuracy
from srrag.lab.judges.faithfulness import JudgeFaithfulness
from srrag.lab.measure.judgements import CASES, Judge
from srrag.lab.measure.scores import score
from srrag.llm.completion import read
from tests.judged import case

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


def ours(judge: Judge, cases: list[dict[str, Any]], answers: list[dict[str, Any]]) -> list[float]:
    """The value of each question."""
    table = pa.Table.from_pylist(cases, schema=CASES)
    completions = [read(json.dumps(answer), judge.schema) for answer in answers]
    judged = judge.parse(table, judge.prompts(table), completions)
    (found,) = score(judge.metrics, judged, [each["query_id"] for each in cases])
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
    claimed = [
        case(
            query_id=str(number),
            claims=[
                {"text": f"S{n}", "distinctive": True, "evidence_ids": []}
                for n, _ in enumerate(each)
            ],
        )
        for number, each in enumerate(verdicts)
    ]
    answers = [
        {
            "verdicts": [
                {"n": n, "reason": "", "supported": supported}
                for n, supported in enumerate(each, start=1)
            ]
        }
        for each in verdicts
    ]
    found = ours(JudgeFaithfulness(), claimed, answers)
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
    answers = [{"reason": "", "rating": words[each]} for pair in ratings for each in pair]
    cases = [case(query_id=str(number)) for number in range(NUM_ANSWERS)]
    found = ours(JudgeAccuracy(trials=1), cases, answers)
    assert found == pytest.approx(expected)
    print(f"accuracy of {NUM_ANSWERS} answers: ragas {sum(expected) / NUM_ANSWERS:.6f}, "
          f"here {sum(found) / NUM_ANSWERS:.6f}")  # fmt: skip
