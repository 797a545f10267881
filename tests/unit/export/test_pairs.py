from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from srrag.export.graphrag import distinct, mentioned


def test_lists_of_groups_that_lack_items_are_empty() -> None:
    pairs = distinct(np.array([3, 1, 3, 1]), np.array([2, 0, 0, 0]))
    names = pa.array(["zero", "one", "two"])
    assert pairs.lists(0, 5, names).to_pylist() == [[], ["zero"], [], ["zero", "two"], []]
    assert pairs.lists(2, 4, names).to_pylist() == [[], ["zero", "two"]]


def test_swapped_and_grouped() -> None:
    pairs = distinct(np.array([0, 1, 2]), np.array([5, 5, 6]))
    assert pairs.swapped().items.tolist() == [0, 1, 2]
    upper = pairs.grouped_by(np.array([7, 7, -1]))
    assert (upper.groups.tolist(), upper.items.tolist()) == ([7], [5])


def test_no_pairs() -> None:
    none = distinct(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert none.lists(0, 2, pa.array([], pa.string())).to_pylist() == [[], []]


def test_a_mention_of_an_unknown_unit_is_named() -> None:
    mention = pa.chunked_array([[[{"unit_id": "u1"}], [{"unit_id": "gone"}]]])
    rows, units = mentioned(np.array([4, 9]), mention, pa.array(["gone", "u1"]))
    assert (rows.tolist(), units.tolist()) == ([4, 9], [1, 0])
    with pytest.raises(ValueError, match="unit gone"):
        mentioned(np.array([4, 9]), mention, pa.array(["u1"]))
