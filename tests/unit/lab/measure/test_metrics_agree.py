"""The metrics that compare sets agree with scikit-learn on random inputs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import average_precision_score, precision_score, recall_score

from srrag.core.step import Place
from srrag.lab.judges.citations import MeasureEvidence
from srrag.lab.judges.nuggets import MeasureNuggets
from srrag.lab.measure.judgements import CASES
from srrag.lab.measure.scores import figure, score
from tests.judged import PASSAGE, case, verdicts

NUM_QUESTIONS = 40


def drawn(seed: int) -> list[dict[str, Any]]:
    """Questions with 1 to 16 pieces of evidence, some relevant, some cited, some made up."""
    draw = random.Random(seed)
    cases = []
    for number in range(NUM_QUESTIONS):
        names = [f"e{n}" for n in range(draw.randint(1, 16))]
        statements = draw.randint(1, 3)
        support = [
            {"evidence_ids": [n for n in names if draw.random() < 0.2], "reason": "", "fault": ""}
            for _ in range(statements)
        ]
        cited = [name for name in [*names, "own-1", "own-2"] if draw.random() < 0.4]
        made = case(
            query_id=str(number),
            evidence=[PASSAGE | {"evidence_id": name} for name in names],
            nuggets=[{"text": str(n), "importance": "vital"} for n in range(statements)],
            support=support,
            sentences=[{"text": "S", "evidence_ids": [name]} for name in cited],
        )
        cases.append(made)
    return cases


def flags(made: dict[str, Any]) -> tuple[list[bool], list[bool]]:
    """Of each piece of evidence: is it relevant, is it cited."""
    names = [item["evidence_id"] for item in made["evidence"]]
    relevant = {name for each in made["support"] for name in each["evidence_ids"]}
    cited = {name for each in made["sentences"] for name in each["evidence_ids"]}
    return [name in relevant for name in names], [name in cited for name in names]


def figures(step: Any, cases: list[dict[str, Any]]) -> dict[str, float]:
    judged = step.open(Place())(pa.Table.from_pylist(cases, schema=CASES))
    names = [each["query_id"] for each in cases]
    found = score(step.metrics, judged, names)
    return {each.metric.name: figure(each, resamples=1, seed=0)["value"] for each in found}


@pytest.mark.parametrize("seed", range(5))
def test_selection_is_micro_averaged_precision_and_recall(seed: int) -> None:
    cases = drawn(seed)
    pairs = [flags(made) for made in cases]
    relevant = np.concatenate([pair[0] for pair in pairs])
    cited = np.concatenate([pair[1] for pair in pairs])
    found = figures(MeasureEvidence(), cases)
    assert found["selection_precision"] == pytest.approx(precision_score(relevant, cited), abs=1e-4)
    assert found["selection_recall"] == pytest.approx(recall_score(relevant, cited), abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_retrieval_is_mean_precision_and_average_precision(seed: int) -> None:
    cases = drawn(seed)
    relevant = [flags(made)[0] for made in cases]
    found = figures(MeasureEvidence(), cases)
    shares = [np.mean(each) for each in relevant]
    assert found["evidence_precision"] == pytest.approx(np.mean(shares), abs=1e-4)
    assert found["evidence_miss"] == pytest.approx(
        np.mean([not any(r) for r in relevant]), abs=1e-4
    )
    precisions = [
        average_precision_score(each, -np.arange(len(each))) if any(each) else 0.0
        for each in relevant
    ]
    assert found["context_precision"] == pytest.approx(np.mean(precisions), abs=1e-4)


def test_nuggets_by_question_and_key_points_of_all_questions() -> None:
    """One question has 1 of 1, another 1 of 4: (1 + 1/4) / 2 by question, 2 of 5 by key point."""
    said = verdicts("full", "full", "none", "contradicted", "none")
    nuggets = [{"text": str(k), "importance": "okay"} for k in range(5)]
    cases = [
        case(query_id=str(n), nuggets=nuggets[part], nugget_verdicts=said[part])
        for n, part in enumerate((slice(1), slice(1, 5)))
    ]
    found = figures(MeasureNuggets(), cases)
    assert (found["nugget_coverage"], found["keypoint_coverage"]) == (0.625, 0.4)
    assert found["nugget_contradiction"] == 0.125
    assert found["nugget_coverage_vital"] is None
