from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srrag.algo.classification import expected_calibration_error, sigmoid
from srrag.lab.train.filter.judge import (
    Scored,
    decide,
    judge_filter,
)
from srrag.lab.train.filter.pairs import (
    JudgedPairs,
    check_both_classes,
    folds,
    held_out,
    read_judged,
)
from srrag.model.filter import Decision
from tests.unit.lab.train.filter_toys import judged_rows, write_rows

ROW = {"query_id": "1", "query": "Is it?", "passage": "It is.", "label": 1}


def test_reads_labels_of_both_kinds(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "passage": "No idea.", "label": "No"}]
    rows += [{**ROW, "query": "is  IT?", "passage": "Third.", "label": "yes"}]
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", rows))
    assert pairs.labels.tolist() == [1, 0, 1]
    assert pairs.groups.tolist() == [0, 0, 0], "questions of the same words are one"


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"label": float("nan")}, ":2: column 'label' is nan"),
        ({"label": 2}, ":2: column 'label' is 2"),
        ({"label": None}, ":2: column 'label' is None"),
        ({"label": [1]}, ":2: column 'label'"),
        ({"label": "maybe"}, "one of 0, 1, Yes, No"),
        ({"passage": float("nan")}, ":2: column 'passage' is nan, not a text"),
        ({"passage": "  "}, "column 'passage'"),
        ({"query": None}, "column 'query'"),
        ({"label": 0, "passage": "it  is."}, "p.jsonl:2 judge the same pair"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, change: dict[str, Any], hint: str) -> None:
    path = write_rows(tmp_path / "p.jsonl", [ROW, {**ROW, "passage": "x", **change}])
    with pytest.raises(ValueError, match=r"p\.jsonl") as caught:
        read_judged(path)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "there is no pair"),
        ("\n\n", "there is no pair"),
        ("{\n", ":1: not a judged pair"),
        ("[1]\n", ":1: not a judged pair (no JSON object)"),
        (
            '{"query_id": "1", "query": "a", "passage": "b"}\n',
            "'label' is missing",
        ),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"p\.jsonl") as caught:
        read_judged(path)
    assert hint in str(caught.value)


def test_no_file() -> None:
    with pytest.raises(ValueError, match="/nowhere: there is no such file"):
        read_judged(Path("/nowhere"))


def test_one_question_needs_both_labels(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "query": "Other?", "passage": "x", "label": 0}]
    with pytest.raises(ValueError, match="no question has both"):
        check_both_classes(read_judged(write_rows(tmp_path / "p.jsonl", rows)))
    check_both_classes(read_judged(write_rows(tmp_path / "p.jsonl", judged_rows(1))))


def test_folds_part_questions_whatever_the_order(tmp_path: Path) -> None:
    rows = judged_rows(23)
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", rows))
    found = folds(pairs, 5, seed=0)
    assert sorted(set(found.tolist())) == [0, 1, 2, 3, 4]
    for question in set(pairs.questions):
        assert len({f for f, q in zip(found, pairs.questions, strict=True) if q == question}) == 1
    turned = read_judged(write_rows(tmp_path / "t.jsonl", rows[::-1]))
    assert (folds(turned, 5, seed=0)[::-1] == found).all()
    with pytest.raises(ValueError, match="23 questions cannot make 24 folds"):
        folds(pairs, 24, seed=0)


def test_held_out_questions(tmp_path: Path) -> None:
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", judged_rows(20)))
    mask = held_out(pairs, 0.15, seed=0)
    assert mask.sum() == 6
    assert not set(pairs.select(mask).questions) & set(pairs.select(~mask).questions)
    with pytest.raises(ValueError, match="leave none to train on"):
        held_out(pairs, 0.99, seed=0)


def test_questions_of_the_test_file_are_left_out(tmp_path: Path) -> None:
    pairs = read_judged(write_rows(tmp_path / "p.jsonl", judged_rows(5)))
    asked = [{**ROW, "query": "does  INSULIN help in case 1?", "passage": pairs.passages[0]}]
    test = read_judged(write_rows(tmp_path / "t.jsonl", asked))
    left = pairs.without_questions_of(test)
    assert len(left) == 8
    assert left.num_questions == 4
    assert left.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert test.seen_passages(pairs).tolist() == [True]
    assert left.fingerprint != pairs.fingerprint
    assert np.array_equal(left.labels, [1, 0] * 4)


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
