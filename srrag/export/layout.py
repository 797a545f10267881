"""Lay out a small graph on a page, deterministically."""

from __future__ import annotations

from collections.abc import Sequence

import networkx
import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]

_SPACING = 110.0
_GAP = 16.0
_ROUNDS = 200
_ASPECT = 1.4
"""Width over height of the stage that a page has on a desk."""


def place(num_nodes: int, edges: Sequence[tuple[int, int]], radii: Points) -> Points:
    """Return positions in pixels, shape (num_nodes, 2): linked nodes are near, none overlap.

    Each connected part is laid out by itself and turned to lie flat; the parts are packed in
    rows, the largest first.
    """
    if num_nodes == 0:
        return np.zeros((0, 2))
    graph = networkx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(sorted({(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]}))
    parts = sorted(map(sorted, networkx.connected_components(graph)), key=lambda p: (-len(p), p))
    boxes = [_part(graph, part, radii) for part in parts]
    sizes = [box.max(0) - box.min(0) + _SPACING for box in boxes]
    width = max(float(sizes[0][0]), (_ASPECT * sum(float(np.prod(s)) for s in sizes)) ** 0.5)
    points = np.zeros((num_nodes, 2))
    x = y = row_height = 0.0
    for part, box, size in zip(parts, boxes, sizes, strict=True):
        if x and x + size[0] > width:
            x, y, row_height = 0.0, y + row_height, 0.0
        points[part] = box - box.min(0) + (x, y)
        x, row_height = x + float(size[0]), max(row_height, float(size[1]))
    centre: Points = (points.min(0) + points.max(0)) / 2
    return points - centre


def _part(graph: networkx.Graph, nodes: Sequence[int], radii: Points) -> Points:
    """Positions of one connected part, in the order of `nodes` (Kamada and Kawai, 1989)."""
    if len(nodes) == 1:
        return np.zeros((1, 2))
    inner = networkx.Graph()  # a subgraph view keeps the order of a set
    inner.add_nodes_from(nodes)
    inner.add_edges_from(sorted(tuple(sorted(edge)) for edge in graph.subgraph(nodes).edges))
    found = networkx.kamada_kawai_layout(inner)
    points = np.array([found[node] for node in nodes])
    points *= _SPACING * len(nodes) ** 0.5 / max(1e-9, float(np.ptp(points, axis=0).max()))
    return _apart(_flat(points), radii[list(nodes)])


def _flat(points: Points) -> Points:
    """Rotate the points by the angle at which they fit a wide stage best."""
    angles = np.linspace(0.0, np.pi, 36, endpoint=False)
    turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    sides = [np.ptp(points @ turn, axis=0) for turn in turns]
    best = min(range(len(turns)), key=lambda n: max(sides[n][0] / _ASPECT, sides[n][1]))
    return np.asarray(points @ turns[best])


def _apart(points: Points, radii: Points) -> Points:
    """Push nodes that overlap apart until none does or the rounds are spent."""
    least = radii[:, None] + radii[None, :] + _GAP
    np.fill_diagonal(least, 0.0)
    angle = np.arange(len(points)) * 2.4
    own = np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, None]
    for _ in range(_ROUNDS):
        between = points[:, None] - points[None, :]
        distance = np.hypot(between[..., 0], between[..., 1])[..., None]
        missing = np.maximum(0.0, least[..., None] - distance)
        if missing.max() < 0.5:
            break
        # Nodes on one and the same point part in directions of their own.
        direction = np.where(distance > 1e-9, between / np.maximum(distance, 1e-9), own)
        points = points + 0.5 * (direction * missing).sum(1)
    return points
