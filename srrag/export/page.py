"""One self-contained web page that shows a part of the graph with the sentences behind it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import numpy.typing as npt

from srrag.core.html import policy
from srrag.export.graph import DOCUMENT_TYPE, GRADE_COLUMNS, Graph, Ints
from srrag.export.select import Selection, with_quotes

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


_ASSETS = Path(__file__).parent / "page"
Row = dict[str, Any]


def write_page(
    graph: Graph, selection: Selection, path: Path, max_nodes: int = 150
) -> dict[str, int]:
    """Write the page of the first `max_nodes` entities of a selection; count what is left out.

    Raises ValueError if the build has no units: there would be no sentence to show.
    """
    content = page_content(graph, selection, max_nodes)
    path.write_text(render(content), "utf-8")
    shown = len(content["nodes"])
    return {
        "entities": shown,
        "edges": len(content["edges"]),
        "left_out": len(selection.rows) - shown,
    }


def page_content(graph: Graph, selection: Selection, max_nodes: int) -> Row:
    """What a page shows: nodes with their places, edges, the sentences behind both, documents.

    Raises ValueError if the build has no units.
    """
    if graph.units is None:
        raise ValueError("stage 'units' is not in this build; a page shows its sentences")
    shown = graph.select(selection.rows[:max_nodes])
    nodes = _nodes(shown, selection.centres)
    edges = _edges(shown, {row: number for number, row in enumerate(np.flatnonzero(shown.kept))})
    documents = with_quotes(shown, [*nodes, *edges])
    _with_positions(nodes, edges)
    return {
        "title": selection.title,
        "note": selection.note,
        "total": len(selection.rows),
        "nodes": nodes,
        "edges": edges,
        "documents": documents,
    }


def render(content: Row) -> str:
    """The page of this content; nothing in it can end the script that holds it, nor run."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    script, style = ((_ASSETS / name).read_text("utf-8") for name in ("page.js", "page.css"))
    parts = {
        "title": html.escape(content["title"]),
        "policy": policy(script, style),
        "style": style,
        "script": script,
        "content": text,
    }
    # One pass over the template, so that no part is searched for the marks of another.
    pieces = (_ASSETS / "page.html").read_text("utf-8").split("%%")
    return "".join(parts[piece] if n % 2 else piece for n, piece in enumerate(pieces))


def _nodes(graph: Graph, centres: Ints) -> list[Row]:
    is_attribute, is_centre = graph.attribute_nodes(), set(centres.tolist())
    nodes = []
    for rows, table in graph.entity_batches(mentions=True):
        for row, entity in zip(rows.tolist(), table.to_pylist(), strict=True):
            nodes.append(
                {
                    "id": entity["entity_id"],
                    "name": entity["name"],
                    "type": entity["type"],
                    "attribute": bool(is_attribute[row]),
                    "centre": row in is_centre,
                    "count": entity["mentions"],
                    "num_documents": entity["documents"],
                    "grades": [entity[name] for name in GRADE_COLUMNS],
                    "grade": entity["best_grade"] if entity["type"] == DOCUMENT_TYPE else "",
                    "mentions": entity["mention_list"],
                }
            )
    return nodes


def _edges(graph: Graph, numbers: dict[Any, int]) -> list[Row]:
    edges = []
    for rows, table in graph.edge_batches(mentions=True):
        heads, tails = graph.heads[rows].tolist(), graph.tails[rows].tolist()
        for head, tail, edge in zip(heads, tails, table.to_pylist(), strict=True):
            edges.append(
                {
                    "source": numbers[head],
                    "target": numbers[tail],
                    "relation": edge["relation"].replace("_", " "),
                    "confidence": round(edge["confidence"], 3),
                    "count": edge["mentions"],
                    "mentions": edge["mention_list"],
                }
            )
    return edges


def _with_positions(nodes: Sequence[Row], edges: Sequence[Row]) -> None:
    radii = np.array([min(22.0, 5.0 + 2.2 * node["count"] ** 0.5) for node in nodes])
    points = place(len(nodes), [(e["source"], e["target"]) for e in edges], radii)
    for node, (x, y), radius in zip(nodes, points.tolist(), radii.tolist(), strict=True):
        node.update(x=round(x, 1), y=round(y, 1), r=round(radius, 1))
