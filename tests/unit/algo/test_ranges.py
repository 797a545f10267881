from __future__ import annotations

import numpy as np

from srrag.algo.ranges import flat_ranges, group_means, top_means


def test_the_numbers_of_ranges_by_hand() -> None:
    numbers, owner = flat_ranges(np.array([5, 2, 9, 0]), np.array([8, 2, 11, 1]))
    assert numbers.tolist() == [5, 6, 7, 9, 10, 0]
    assert owner.tolist() == [0, 0, 0, 2, 2, 3]
    assert [part.tolist() for part in flat_ranges(np.zeros(0, int), np.zeros(0, int))] == [[], []]


def test_means_of_groups_by_hand() -> None:
    found = group_means(np.array([1.0, -3.0, 4.0]), np.array([0, 2, 0]), 4)
    assert found.tolist() == [2.5, -np.inf, -3.0, -np.inf]


def test_the_best_of_each_group_count_and_missing_ones_as_0() -> None:
    values, group = np.array([1.0, 5.0, 3.0, 4.0, 2.0]), np.array([1, 0, 0, 1, 0])
    assert top_means(values, group, 2, 3).tolist() == [4.0, 2.5, 0.0]
    assert top_means(values, group, 3, 3).tolist() == [10 / 3, 5 / 3, 0.0]
