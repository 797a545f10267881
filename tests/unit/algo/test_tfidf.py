from __future__ import annotations

import math

import numpy as np
import pytest

from srrag.algo.terms import tfidf


def test_weights_by_hand() -> None:
    """Of three texts two hold b; columns are a, b; the second text has no term."""
    found = tfidf([["b", "a", "b"], [], ["b"]])
    rare, common = math.log(4 / 2) + 1, math.log(4 / 3) + 1
    length = math.hypot(rare, 2 * common)
    expected = np.array([[rare / length, 2 * common / length], [0, 0], [0, 1]])
    assert found == pytest.approx(expected)
    assert tfidf([["b"], ["b"]]).tolist() == [[1.0], [1.0]], "what every text holds has a weight"
    assert tfidf([]).shape == (0, 0)
