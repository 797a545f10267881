from __future__ import annotations

import numpy as np
import pytest

from srrag.export.page import place

STAR = [(0, n) for n in range(1, 40)]


@pytest.mark.parametrize(
    ("num_nodes", "edges"),
    [(1, []), (7, []), (40, STAR), (45, STAR), (6, [(0, 1), (1, 2), (2, 0), (3, 4), (3, 3)])],
)
def test_no_node_lies_over_another(num_nodes: int, edges: list[tuple[int, int]]) -> None:
    radii = np.full(num_nodes, 9.0)
    points = place(num_nodes, edges, radii)
    assert points.shape == (num_nodes, 2)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(gaps, np.inf)
    assert gaps.min() > 18.0
    assert np.array_equal(points, place(num_nodes, edges, radii)), "the same every time"


def test_linked_nodes_are_nearer_than_others() -> None:
    path = [(n, n + 1) for n in range(9)]
    points = place(10, path, np.full(10, 5.0))
    linked = [np.linalg.norm(points[a] - points[b]) for a, b in path]
    assert max(linked) < np.linalg.norm(points[0] - points[9]) / 3


def test_nothing_to_place() -> None:
    assert place(0, [], np.zeros(0)).shape == (0, 2)
