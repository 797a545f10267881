from __future__ import annotations

import numpy as np

from srrag.graph.tree_graph import degrees_within, nearest_keyword, places

# Community 0 is a path 0-1-2-3 with 4 apart; 5 and 6 are community 1, linked to 3.
LABEL = np.array([0, 0, 0, 0, 0, 1, 1])
HEADS = np.array([0, 1, 2, 5, 3, 2])
TAILS = np.array([1, 2, 3, 6, 5, 2])


def test_degrees_count_edges_inside_the_community_alone() -> None:
    assert degrees_within(LABEL, HEADS, TAILS).tolist() == [1, 2, 2, 1, 0, 1, 1]


def test_places_count_within_groups() -> None:
    order = np.array([6, 3, 0, 2, 5, 1, 4])
    assert places(LABEL, order).tolist() == [1, 3, 2, 0, 4, 1, 0]
    assert places(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
    assert places(np.array([1, 1, 2]), np.array([1, 2, 0])).tolist() == [1, 0, 0]


def test_a_member_belongs_to_the_keyword_nearest_to_it() -> None:
    keyword = np.array([1, -1, -1, 0, -1, 0, -1])
    found = nearest_keyword(LABEL, keyword, HEADS, TAILS)
    # 1 lies next to keyword 1, 2 next to keyword 0; 4 is reached by none.
    assert found.tolist() == [1, 1, 0, 0, 0, 0, 0]
