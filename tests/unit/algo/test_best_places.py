from __future__ import annotations

import numpy as np

from srrag.core.hits import best_places


def test_the_best_of_each_document_by_hand() -> None:
    """Two questions; documents 7 and 8 stand in both."""
    scores = np.array([0.1, 0.9, 0.5, 0.9, 0.2, 0.3])
    rows = np.array([0, 0, 0, 0, 1, 1])
    documents = np.array([7, 8, 7, 8, 7, 8])
    assert best_places(scores, rows, documents).tolist() == [2, 1, 2, 1, 4, 5]


def test_nothing_has_no_best() -> None:
    none = np.zeros(0, np.int64)
    assert best_places(np.zeros(0), none, none).tolist() == []
