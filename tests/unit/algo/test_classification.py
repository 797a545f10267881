from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.algo import classification
from srrag.algo.classification import (
    CLASSES,
    FOLDS,
    auroc,
    best_threshold,
    bootstrap_weights,
    expected_calibration_error,
    expected_threshold,
    figure_intervals,
    figures,
    fit_logistic,
    precision_recall_f1,
    question_fold,
    sigmoid,
    token_counts,
    token_figures,
)

ONE = np.ones((1, 4))


def test_auroc_by_hand() -> None:
    """Of 2 × 2 pairs, three are in order: .9 > .4, .9 > .1, .3 > .1."""
    labels = np.array([1.0, 0.0, 1.0, 0.0])
    assert auroc(labels, np.array([0.9, 0.4, 0.3, 0.1]), ONE) == pytest.approx([0.75])
    assert auroc(labels, np.array([0.9, 0.9, 0.9, 0.9]), ONE) == pytest.approx([0.5])
    assert auroc(np.ones(4), np.arange(4.0), ONE) == pytest.approx([0.5])


def test_precision_recall_f1_by_hand() -> None:
    labels, said = np.array([1.0, 1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0])
    found = [float(value[0]) for value in precision_recall_f1(labels, said, ONE)]
    assert found == pytest.approx([1 / 2, 1 / 3, 2 / 5])
    nothing = precision_recall_f1(labels, np.zeros(4), ONE)
    assert [float(value[0]) for value in nothing] == [0, 0, 0]


def test_calibration_error_by_hand() -> None:
    """Bin .8–.9 holds two of .85 of which one is evidence (off by .35), bin 0–.1 two of 0."""
    probabilities = np.array([0.85, 0.85, 0.0, 0.0])
    labels = np.array([1.0, 0.0, 0.0, 0.0])
    assert expected_calibration_error(labels, probabilities, ONE) == pytest.approx([0.35 / 2])
    assert expected_calibration_error(np.ones(4), np.ones(4), ONE) == pytest.approx([0])


def test_calibration_counts_every_bin_and_certainty_too() -> None:
    assert expected_calibration_error(np.zeros(4), np.ones(4), ONE) == pytest.approx([1])
    two = np.array([0.85, 0.85, 0.05, 0.05])
    assert expected_calibration_error(np.zeros(4), two, ONE) == pytest.approx([0.45])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 10), st.integers(0, 3)), min_size=2, max_size=20
    )
)
def test_a_weight_is_so_many_copies(rows: list[tuple[int, int, int]]) -> None:
    labels, scores, counts = np.array(rows, float).T
    if counts.sum() == 0:
        return
    weighted = figures(labels, scores / 10, 0.5, counts[None])
    copies = np.repeat(np.arange(len(rows)), counts.astype(int))
    copied = figures(labels[copies], scores[copies] / 10, 0.5)
    for name, value in weighted.items():
        assert value == pytest.approx(copied[name]), name


def test_draws_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classification, "_BLOCK_NUMBERS", 60)
    blocks = bootstrap_weights(np.array([0, 0, 1, 2, 2, 2]), resamples=25, seed=1)
    assert [len(block) for block in blocks] == [10, 10, 5]


def test_whole_groups_are_drawn() -> None:
    groups = np.array([0, 0, 1, 2, 2, 2])
    blocks = list(bootstrap_weights(groups, resamples=300, seed=1))
    weights = np.concatenate(blocks)
    assert weights.shape == (300, 6)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, [0, 2, 3]].sum(axis=1) == 3).all()
    assert weights[:, 2].mean() == pytest.approx(1, abs=0.15)
    again = np.concatenate(list(bootstrap_weights(groups, resamples=300, seed=1)))
    assert (weights == again).all()


def test_the_best_threshold_lies_between_two_scores() -> None:
    labels, scores = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.9, 0.2, 0.8, 0.1])
    assert best_threshold(labels, scores) == pytest.approx(0.5)
    assert best_threshold(np.array([1.0, 0.0]), np.array([0.7, 0.7])) == pytest.approx(0.7)
    tied = best_threshold(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0.9, 0.9, 0.9, 0.1]))
    assert tied == pytest.approx(0.5), "equal scores are called together"
    near = best_threshold(np.array([1.0, 1.0, 0.0]), np.array([0.9, 0.8, 0.2]))
    assert near == pytest.approx(0.5)
    with pytest.raises(ValueError, match="both classes"):
        best_threshold(np.ones(3), np.arange(3.0))


def test_the_threshold_to_be_expected_by_hand() -> None:
    """F1 of the first n of .9, .6, .1: 1.8 / 2.6, 3 / 3.6, 3.2 / 4.6; the second is best."""
    assert expected_threshold(np.array([0.6, 0.1, 0.9])) == pytest.approx(0.35)
    assert expected_threshold(np.array([0.5])) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="above 0"):
        expected_threshold(np.zeros(3))


def test_the_expected_threshold_is_that_of_many_labels() -> None:
    rng = np.random.default_rng(0)
    chance = rng.beta(0.5, 1.5, 200_000)
    labels = (rng.random(len(chance)) < chance).astype(float)
    found = expected_threshold(chance)
    said = [(chance >= limit).astype(float) for limit in (found, best_threshold(labels, chance))]
    ones = np.ones((1, len(labels)))
    ours, best = (float(precision_recall_f1(labels, some, ones)[2][0]) for some in said)
    assert best - ours < 0.001


def test_logistic_regression_finds_what_was_planted() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40_000, 2))
    chance = sigmoid(1.5 * features[:, 0] - 0.7 * features[:, 1] - 0.4)
    labels = (rng.random(len(chance)) < chance).astype(float)
    assert fit_logistic(features, labels) == pytest.approx([1.5, -0.7, -0.4], abs=0.05)


def test_logistic_regression_ends_where_no_weight_is_better() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 3)) * np.array([1.0, 20.0, 0.1])
    labels = (rng.random(60) < sigmoid(features[:, 0])).astype(float)
    found = fit_logistic(features, labels, ridge=0.5)
    design = np.column_stack([features, np.ones(60)])
    slope = design.T @ (sigmoid(design @ found) - labels) + np.append(0.5 * found[:3], 0.0)
    assert np.abs(slope).max() < 1e-6


def test_logistic_regression_stays_finite_where_classes_part() -> None:
    found = fit_logistic(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert np.isfinite(found).all()
    assert found[0] > 1
    with pytest.raises(ValueError, match="not finite"):
        fit_logistic(np.array([[np.nan], [1.0]]), np.array([0.0, 1.0]))


def test_a_feature_that_says_nothing_does_not_end_the_fit() -> None:
    """Its weight stands still from the first step on."""
    rng = np.random.default_rng(4)
    feature = rng.normal(size=200)
    labels = (rng.random(200) < 1 / (1 + np.exp(-2 * feature))).astype(float)
    alone = fit_logistic(feature[:, None], labels, ridge=0.1)
    beside = fit_logistic(np.column_stack([feature, np.zeros(200)]), labels, ridge=0.1)
    assert beside == pytest.approx([alone[0], 0.0, alone[1]], abs=1e-6)


GOLD = np.array([1, 1, 2, 0, 3, 3], np.int8)
FOUND = np.array([1, 2, 2, 3, 3, 0], np.int8)


def test_counts_and_figures_by_hand() -> None:
    counts = token_counts(GOLD, FOUND)
    assert counts.tolist() == [[1, 1, 2], [1, 2, 1], [1, 2, 2]]
    found = token_figures(counts)
    assert (found["P_precision"], found["P_recall"]) == (1.0, 0.5)
    assert (found["I_precision"], found["I_recall"]) == (0.5, 1.0)
    assert (found["O_precision"], found["O_recall"]) == (0.5, 0.5)
    assert found["P_F1"] == found["I_F1"] == pytest.approx(2 / 3)
    assert found["O_F1"] == pytest.approx(0.5)
    assert found["token_macro_F1"] == pytest.approx((2 / 3 + 2 / 3 + 1 / 2) / 3)


def test_every_token_of_a_class_counts() -> None:
    counts = token_counts(np.array([1, 1, 1, 2], np.int8), np.array([1, 1, 2, 2], np.int8))
    assert counts.tolist() == [[2, 2, 3], [1, 2, 1], [0, 0, 0]]


def test_counts_add_up() -> None:
    halves = token_counts(GOLD[:3], FOUND[:3]) + token_counts(GOLD[3:], FOUND[3:])
    assert np.array_equal(halves, token_counts(GOLD, FOUND))


def test_nothing_found_scores_nothing() -> None:
    assert token_figures(token_counts(GOLD, np.zeros(6, np.int8)))["token_macro_F1"] == 0.0


def test_the_interval_holds_the_value_and_narrows_with_more_documents() -> None:
    rng = np.random.default_rng(0)

    def documents(count: int) -> np.ndarray:
        gold = rng.integers(0, 4, (count, 60)).astype(np.int8)
        found = np.where(rng.random(gold.shape) < 0.7, gold, 0).astype(np.int8)
        return np.stack([token_counts(g, f) for g, f in zip(gold, found, strict=True)])

    widths = []
    for count in (20, 500):
        counts = documents(count)
        value, low, high = figure_intervals(counts, resamples=2000)["token_macro_F1"]
        assert low < value < high
        assert value == pytest.approx(token_figures(counts.sum(0))["token_macro_F1"])
        widths.append(high - low)
    assert widths[1] < widths[0] / 3
    again = [figure_intervals(counts, resamples=200, seed=1) for _ in range(2)]
    assert again[0] == again[1]


def test_equal_documents_leave_no_doubt() -> None:
    counts = np.stack([token_counts(GOLD, FOUND)] * 5)
    _, low, high = figure_intervals(counts, resamples=100)["token_macro_F1"]
    assert low == pytest.approx(high)
    with pytest.raises(ValueError, match="at least one document"):
        figure_intervals(counts[:0])


def test_one_token_is_enough() -> None:
    found = token_figures(token_counts(np.array([1], np.int8), np.array([1], np.int8)))
    assert found[f"{CLASSES[0]}_precision"] == found[f"{CLASSES[0]}_recall"] == 1.0


def test_a_question_keeps_its_fold_however_it_is_written() -> None:
    asked = "Does rest help?"
    assert question_fold(asked) == 3
    assert {question_fold(text) for text in ("does REST help", " Does  rest-help ?!")} == {3}
    assert question_fold("Does rest help 2") != question_fold("Doesresthelp2")


def test_folds_are_of_much_the_same_size() -> None:
    sizes = Counter(question_fold(f"question {number}") for number in range(1000))
    assert FOLDS == 5 and sizes.keys() == set(range(FOLDS))
    assert all(150 < size < 250 for size in sizes.values())
