from __future__ import annotations

import numpy as np
import pytest

from srrag.algo.mmr import cosines, mmr
from srrag.algo.terms import tfidf


def test_by_hand() -> None:
    """Second step: .75·.9 − .25·1 = .425 for the twin, .75·.7 − 0 = .525 for the other."""
    relevance = np.array([1.0, 0.9, 0.7])
    alike = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert mmr(relevance, alike, 3).tolist() == [0, 2, 1]
    assert mmr(relevance, alike, 3, weight=1.0).tolist() == [0, 1, 2]
    assert mmr(np.array([1.0, 0.9, 0.6]), alike, 3).tolist() == [0, 2, 1], ".425 against .45"
    assert mmr(relevance[::-1], alike, 3, weight=0.0).tolist() == [0, 2, 1]
    assert mmr(relevance, alike, 1).tolist() == [0]
    assert mmr(np.zeros(3), alike, 9).tolist() == [0, 2, 1]
    assert mmr(np.zeros(0), np.zeros((0, 0)), 4).tolist() == []


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        mmr(np.ones(1), np.ones((1, 1)), 1, weight)


def test_shapes_that_disagree() -> None:
    with pytest.raises(ValueError, match="shape"):
        mmr(np.ones(2), np.ones((3, 3)), 1)


def test_tfidf_by_hand() -> None:
    """Three texts: "a" is in two (idf ln(4/3) + 1), "b" in one (ln(4/2) + 1)."""
    found = tfidf([["a", "b"], ["a"], []])
    rare = np.log(4 / 2) + 1
    common = np.log(4 / 3) + 1
    expected = np.array([common, rare]) / np.hypot(common, rare)
    np.testing.assert_allclose(found[0], expected)
    np.testing.assert_allclose(found[1], [1.0, 0.0])
    assert not found[2].any()
    np.testing.assert_allclose(cosines(found, found)[0, 1], expected[0])


def test_cosines_stay_within_1_whatever_the_rounding() -> None:
    found = cosines(np.array([[1.5, 0.0], [-1.5, 0.0]]), np.array([[1.0, 0.0]]))
    assert found.tolist() == [[1.0], [-1.0]]


def test_tfidf_equals_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["knee pain pain", "hip pain in adults", "adults with a cold", ""]
    theirs = TfidfVectorizer(analyzer=str.split).fit_transform(texts).toarray()
    np.testing.assert_allclose(tfidf([text.split() for text in texts]), theirs)


def test_nothing_to_weigh() -> None:
    assert tfidf([]).shape == (0, 0)
    assert tfidf([[], []]).shape == (2, 0)
