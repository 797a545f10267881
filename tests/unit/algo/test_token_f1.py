from __future__ import annotations

import numpy as np
import pytest

from srrag.algo.token_f1 import CLASSES, figure_intervals, figures, token_counts

GOLD = np.array([1, 1, 2, 0, 3, 3], np.int8)
FOUND = np.array([1, 2, 2, 3, 3, 0], np.int8)


def test_counts_and_figures_by_hand() -> None:
    counts = token_counts(GOLD, FOUND)
    assert counts.tolist() == [[1, 1, 2], [1, 2, 1], [1, 2, 2]]
    found = figures(counts)
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
    assert figures(token_counts(GOLD, np.zeros(6, np.int8)))["token_macro_F1"] == 0.0


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
        assert value == pytest.approx(figures(counts.sum(0))["token_macro_F1"])
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
    found = figures(token_counts(np.array([1], np.int8), np.array([1], np.int8)))
    assert found[f"{CLASSES[0]}_precision"] == found[f"{CLASSES[0]}_recall"] == 1.0
