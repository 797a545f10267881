from __future__ import annotations

import numpy as np
import pytest

from srrag.algo.classification import expected_calibration_error, sigmoid
from srrag.lab.train.filter.judge import (
    Scored,
    decide,
    judge_filter,
)
from srrag.lab.train.filter.pairs import JudgedPairs
from srrag.model.filter import Decision


def judged(groups: list[int], labels: list[float]) -> JudgedPairs:
    names = tuple(map(str, groups))
    passages = tuple(f"p{n}" for n in range(len(groups)))
    return JudgedPairs("p.jsonl", names, names, passages, np.array(labels), np.array(groups))


def test_calibration_and_threshold_are_those_of_the_pairs() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=4000) * 3
    labels = (rng.random(4000) < sigmoid(0.5 * logits - 1)).astype(float)
    pairs = judged([n // 4 for n in range(4000)], labels.tolist())
    found = decide(pairs, logits)
    assert [found.scale, found.bias] == pytest.approx([0.5, -1], abs=0.1)
    probabilities = found.probabilities(logits)
    ones = np.ones((1, 4000))
    assert expected_calibration_error(labels, probabilities, ones)[0] < 0.03
    assert expected_calibration_error(labels, np.round(sigmoid(logits), 4), ones)[0] > 0.05
    assert 0.3 < found.threshold < 0.4


def test_probabilities_are_rounded() -> None:
    found = Decision(threshold=0.5).probabilities(np.array([0.1234567, 800.0, -800.0]))
    assert found.tolist() == [0.5308, 1.0, 0.0]


def test_a_better_scoring_is_better_and_by_how_much() -> None:
    rng = np.random.default_rng(1)
    labels = np.tile([1.0, 0.0, 0.0], 100)
    pairs = judged([n // 3 for n in range(300)], labels.tolist())
    good = np.clip(labels * 0.5 + rng.random(300) * 0.6, 0, 1)
    poor = np.clip(labels * 0.2 + rng.random(300) * 0.8, 0, 1)
    seen = np.arange(300) < 150
    found = judge_filter(Scored(pairs, good, 0.5), Scored(pairs, poor, 0.5), seen, 400)
    assert set(found["metrics"]) == {"precision", "recall", "F1", "AUROC", "ECE"}
    assert found["difference"]["AUROC"]["low"] > 0
    assert found["difference"]["AUROC"]["p"] < 0.01
    area = found["metrics"]["AUROC"]
    assert area["low"] < area["value"] < area["high"]
    assert (area["n"], area["items"]) == (100, 300), "the bootstrap draws questions"
    assert "ECE" not in found["baseline_metrics"]
    assert found["new_passages"]["pairs"] == 150
    same = judge_filter(Scored(pairs, good, 0.5), Scored(pairs, good, 0.5), seen, 400)
    assert same["difference"]["F1"] == {
        "value": 0.0, "low": 0.0, "high": 0.0, "n": 100, "p": 1.0,
    }  # fmt: skip
