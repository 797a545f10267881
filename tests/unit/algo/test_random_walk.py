from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from srrag.index.graph_reader import walk

Floats = npt.NDArray[np.float32]

WEIGHTS = np.array([[0, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]], np.float32)
"""0 – 1 – 2 with weights 1 and 3; 3 is alone."""
SHARES = WEIGHTS / np.maximum(WEIGHTS.sum(axis=0), 1)


def step(place: Floats) -> Floats:
    found: Floats = SHARES @ place
    return found


def test_a_walk_by_hand() -> None:
    """From 0, restart ½: after one step ½ at 0 and at 1; after two ½ + 1/16, ¼, 3/16."""
    seeds = np.array([2.0, 0, 0, 0], np.float32)
    both = np.array([1.0, 1.0, 0, 0], np.float32)
    assert walk(step, both, 0.5, 1) == pytest.approx([0.3125, 0.5, 0.1875, 0])
    assert walk(step, seeds, 0.5, 1) == pytest.approx([0.5, 0.5, 0, 0])
    assert walk(step, seeds, 0.5, 2) == pytest.approx([0.5625, 0.25, 0.1875, 0])


def test_nothing_further_than_the_steps_is_reached() -> None:
    seeds = np.array([1.0, 0, 0, 0], np.float32)
    assert walk(step, seeds, 0.15, 1)[2] == 0
    assert walk(step, seeds, 0.15, 2)[2] > 0
    assert walk(step, seeds, 0.15, 9)[3] == 0


def test_without_a_seed_there_is_no_walk() -> None:
    assert not walk(step, np.zeros(4, np.float32)).any()
