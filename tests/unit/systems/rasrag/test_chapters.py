from __future__ import annotations

import numpy as np
import pytest

from srrag.systems.rasrag.chapter_independence import medians, pair_cosines, relatedness, softmax

VECTORS = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
CHAPTERS = np.array([0, 0, 1, 2])


def test_pairs_count_once_and_never_with_themselves() -> None:
    within, across = pair_cosines(VECTORS, CHAPTERS)
    assert within.tolist() == [1.0]
    assert across.tolist() == [0.0] * 5


def test_measures_by_hand() -> None:
    """All other chapters are equally far: uniform. Own mass: 2e/(2e + 2), and e/(e + 3)."""
    found = relatedness(VECTORS, CHAPTERS, 1.0)
    assert found.entropy == pytest.approx([1.0, 1, 1, 1])
    assert found.top_mass == pytest.approx([0.5, 0.5, 0.5, 0.5])
    e = np.e
    assert found.own_mass == pytest.approx([e / (e + 1), e / (e + 1), e / (e + 3), e / (e + 3)])
    assert medians(found.own_mass, CHAPTERS) == pytest.approx([e / (e + 1), *[e / (e + 3)] * 2])


def test_a_chapter_that_pulls_lowers_the_entropy() -> None:
    vectors = np.array([[1.0, 0], [0.8, 0.6], [0.0, 1.0]])
    found = relatedness(vectors, np.arange(3), 0.05)
    assert found.entropy[0] < 0.01
    assert found.top_mass[0] > 0.99


def test_for_a_large_temperature_the_figures_say_nothing_of_the_data() -> None:
    draw = np.random.default_rng(0).normal(size=(30, 8))
    vectors = draw / np.linalg.norm(draw, axis=1, keepdims=True)
    found = relatedness(vectors, np.arange(30) % 3, 1000.0)
    assert found.entropy == pytest.approx(np.ones(30), abs=1e-3)
    assert found.own_mass == pytest.approx(np.full(30, 1 / 3), abs=1e-2)


def test_softmax_gives_no_mass_to_what_is_left_out() -> None:
    assert softmax(np.array([[0.0, -np.inf, 0.0]]), 0.01).tolist() == [[0.5, 0.0, 0.5]]


def test_too_few_chapters_and_no_temperature_are_refused() -> None:
    with pytest.raises(ValueError, match="2 chapters"):
        relatedness(VECTORS[:3], CHAPTERS[:3], 0.1)
    with pytest.raises(ValueError, match="temperature is 0"):
        relatedness(VECTORS, CHAPTERS, 0)


def test_a_chapter_pulls_by_its_mean_however_long_it_is() -> None:
    """From (0, 0, 1): chapters of two and of one BTU, whose means are as near, take half each."""
    vectors = np.array([[0.6, 0, 0.8], [0.6, 0, 0.8], [0, 0.6, 0.8], [0, 0, 1.0]])
    found = relatedness(vectors, np.array([0, 0, 1, 2]), 0.5)
    assert found.top_mass[3] == pytest.approx(0.5)
    assert found.entropy[3] == pytest.approx(1.0)
