"""One self-contained web page that shows a part of the graph with the sentences behind it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srrag.core.html import policy
from srrag.export.graph import DOCUMENT_TYPE, GRADE_COLUMNS, GRADES, Graph, Ints
from srrag.export.layout import place
from srrag.export.quotes import Passages
from srrag.export.select import Selection

_ASSETS = Path(__file__).parent / "page"
MAX_MENTIONS = 20
"""Mentions shown for one node or edge; how many more there are is said."""

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


def with_quotes(graph: Graph, items: Sequence[Row], limit: int = MAX_MENTIONS) -> list[Row]:
    """Put the best-graded distinct sentences in place of the mentions; return the documents.

    An item keeps `limit` sentences; `more` counts the rest. Raises ValueError without units.
    """
    if graph.units is None:
        raise ValueError("stage 'units' is not in this build; a page shows its sentences")
    doc_ids = sorted({m["doc_id"] for item in items for m in item["mentions"]})
    columns = ["doc_id", "title", "source_id", "grade", "year", "pmid"]
    documents: list[Row] = graph.units.take_documents(doc_ids).select(columns).to_pylist()
    for document, standing in zip(documents, graph.standings.find(doc_ids)[0], strict=True):
        document["standing"] = standing
    number = {document["doc_id"]: n for n, document in enumerate(documents)}
    rank = {grade: n for n, grade in enumerate(GRADES)}
    passages = Passages(graph.units, doc_ids)
    for item in items:
        spans = {(m["doc_id"], m["char_start"], m["char_end"]) for m in item["mentions"]}
        sentences: dict[tuple[str, str], Row] = {}
        for doc_id, start, end in sorted(spans):
            found = passages.find(doc_id, start, end)
            if found:
                quoted, section = found
                sentence = {"document": number[doc_id], "quote": list(quoted), "section": section}
                sentences.setdefault((doc_id, "".join(quoted)), sentence)
        ordered = sorted(
            sentences.values(), key=lambda s: rank[documents[s["document"]]["grade"] or "none"]
        )
        item["mentions"] = ordered[:limit]
        item["more"] = max(0, len(ordered) - limit)
    return documents


def _with_positions(nodes: Sequence[Row], edges: Sequence[Row]) -> None:
    radii = np.array([min(22.0, 5.0 + 2.2 * node["count"] ** 0.5) for node in nodes])
    points = place(len(nodes), [(e["source"], e["target"]) for e in edges], radii)
    for node, (x, y), radius in zip(nodes, points.tolist(), radii.tolist(), strict=True):
        node.update(x=round(x, 1), y=round(y, 1), r=round(radius, 1))
