from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from srrag.algo.random_walk import transitions, walk

PATH = sparse.csr_array(np.array([[0, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]], float))
"""0 – 1 – 2 with weights 1 and 3; 3 is alone."""


def test_a_step_goes_by_the_weight_of_its_links() -> None:
    step = transitions(PATH).toarray()
    assert step[:, 1] == pytest.approx([0.25, 0, 0.75, 0])
    assert step[:, 0] == pytest.approx([0, 1, 0, 0])
    assert not step[:, 3].any()
    light = transitions(sparse.csr_array(0.1 * PATH.toarray())).toarray()
    assert light == pytest.approx(step), "shares, whatever the sum"


def test_a_walk_by_hand() -> None:
    """From 0, restart ½: after one step ½ at 0 and at 1; after two ½ + 1/16, ¼, 3/16."""
    seeds = np.array([2.0, 0, 0, 0], np.float32)
    step = transitions(PATH)
    both = np.array([1.0, 1.0, 0, 0], np.float32)
    assert walk(step, both, 0.5, 1) == pytest.approx([0.3125, 0.5, 0.1875, 0])
    assert walk(step, seeds, 0.5, 1) == pytest.approx([0.5, 0.5, 0, 0])
    assert walk(step, seeds, 0.5, 2) == pytest.approx([0.5625, 0.25, 0.1875, 0])


def test_nothing_further_than_the_steps_is_reached() -> None:
    seeds = np.array([1.0, 0, 0, 0], np.float32)
    assert walk(transitions(PATH), seeds, 0.15, 1)[2] == 0
    assert walk(transitions(PATH), seeds, 0.15, 2)[2] > 0
    assert walk(transitions(PATH), seeds, 0.15, 9)[3] == 0


def test_without_a_seed_there_is_no_walk() -> None:
    assert not walk(transitions(PATH), np.zeros(4, np.float32)).any()
