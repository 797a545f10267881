"""A small graph of hostile texts, written as a build writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core.schema import (
    COMMUNITIES,
    DOCUMENTS,
    EDGES,
    ENTITIES,
    UNITS,
    conform,
    empty_value,
)
from srrag.core.spec import content_id
from srrag.core.standing import Standings
from srrag.core.step import Place
from srrag.export.graph import Graph, Texts, open_graph, open_texts
from srrag.graph.knowledge_tree import BELOW
from srrag.graph.knowledge_tree import TOPICS as TOPICS_FILE
from srrag.graph.tree_graph import NODE_SCHEMA, TOPIC_SCHEMA
from srrag.index.units import BuildUnits

QUOTED = 'a "quoted", name; with\na line break \\'
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
CONTROL = "vertical\x0btab \x01 and \ufffe"

# id: name, type, documents that mention it
NODES: dict[str, tuple[str, str, Sequence[str]]] = {
    "guide": ("d1", "Document", ["d1"]),
    "trial": ("d2", "Document", ["d2", "d2"]),
    "quoted": (QUOTED, "Intervention", ["d1", "d2", "d2"]),
    "script": (SCRIPT, "Outcome; of a kind", ["d2"]),
    "control": (CONTROL, "Condition", ["d3"]),
    "twin": ("exercise", "Intervention", ["d1"]),
    "other twin": ("exercise", "Outcome", ["d2"]),
    "dose": ("daily", "frequency", ["d1"]),
    "other dose": ("daily", "frequency", ["d2"]),
    "alone": ("Alone ÅÉ", "Population", ["d3"]),
}
# head, relation, tail, kind, document
LINKS = [
    ("guide", "uses_intervention", "quoted", "relation", "d1"),
    ("guide", "uses_intervention", "twin", "relation", "d1"),
    ("trial", "uses_intervention", "quoted", "relation", "d2"),
    ("trial", "reports_outcome", "script", "relation", "d2"),
    ("trial", "reports_outcome", "other twin", "relation", "d2"),
    ("quoted", "affects", "script", "relation", "d2"),
    ("quoted", "worsens", "script", "relation", "d2"),
    ("twin", "has_attribute", "dose", "attribute", "d1"),
    ("quoted", "has_attribute", "other dose", "attribute", "d2"),
    ("control", "treated_by", "twin", "relation", "d3"),
]
GROUPS = {"guide": "left", "twin": "left", "dose": "left", "control": "left", "alone": "single"}
TOPICS = {"left": ("Exercise", "It helps."), "right": ("Exercise", "Or not."), "single": ("Å", "")}
KEYWORDS = {"twin": "left", "quoted": "right"}
TITLES = {"d1": ("A guideline", "A"), "d2": (f"Trial {SCRIPT}", "C"), "d3": ("Untold", "")}
TEXT = "Nothing here. The exercise of {} was done daily by 40 adults. It helped."


@dataclass(frozen=True)
class Written:
    """The written build: folders of its stages and the parts of its relations."""

    artifacts: Mapping[str, Path]
    parts: Mapping[str, Sequence[Path]]

    @property
    def graph(self) -> Graph:
        return open_graph(self.artifacts)

    @property
    def texts(self) -> Texts:
        return open_texts(self.parts)


def key(name: str) -> str:
    return content_id(name)


class Retracted(Standings):
    """An index that knows of these retracted papers and of no other fault."""

    def __init__(self, *papers: str) -> None:
        super().__init__(None)
        self.doc_ids = {key(paper) for paper in papers}

    def find(self, doc_ids: Sequence[str]) -> tuple[list[str], list[str]]:
        told = ["retracted" if doc_id in self.doc_ids else "ok" for doc_id in doc_ids]
        return told, [""] * len(told)


def write(folder: Path) -> Written:
    """Write documents, chunks, units, entities, edges, communities and the tree above them."""
    documents = [
        {"doc_id": key(d), "source_id": d, "title": title, "text": TEXT.format(d), "grade": grade}
        for d, (title, grade) in TITLES.items()
    ]
    chunks = [
        {"unit_id": key(f"chunk {d}"), "doc_id": key(d), "text": TEXT.format(d),
         "char_end": len(TEXT.format(d)), "num_tokens": 20, "section": "Results"}
        for d in TITLES
    ]  # fmt: skip
    parts = {
        "documents": [_table(folder, "documents", documents, DOCUMENTS)],
        "chunks": [_table(folder, "chunks", chunks, UNITS)],
    }
    artifacts = {name: folder / name for name in ("units", "entities", "communities", "tree")}
    for path in artifacts.values():
        path.mkdir()
    inputs = {"windows": parts["chunks"], "documents": parts["documents"]}
    BuildUnits().build(inputs, artifacts["units"], Place())
    pq.write_table(_entities(), artifacts["entities"] / "entities.parquet")
    pq.write_table(_edges(), artifacts["entities"] / "edges.parquet")
    pq.write_table(_communities(), artifacts["communities"] / "communities.parquet")
    topics, below = _tree()
    pq.write_table(topics, artifacts["tree"] / TOPICS_FILE)
    pq.write_table(below, artifacts["tree"] / BELOW)
    return Written(artifacts, parts)


def _mention(document: str) -> dict[str, Any]:
    start = TEXT.index("exercise")
    return {
        "unit_id": key(f"chunk {document}"),
        "doc_id": key(document),
        "char_start": start,
        "char_end": start + len("exercise"),
    }


def _entities() -> pa.Table:
    rows = [
        {"entity_id": key(node), "name": key(name) if kind == "Document" else name, "type": kind,
         "mentions": [_mention(d) for d in documents]}
        for node, (name, kind, documents) in NODES.items()
    ]  # fmt: skip
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["entity_id"]), schema=ENTITIES)


def _edges() -> pa.Table:
    rows = [
        {"edge_id": key(f"{head} {relation} {tail}"), "kind": kind, "head_id": key(head),
         "relation": relation, "tail_id": key(tail), "confidence": 0.5,
         "mentions": [_mention(document)]}
        for head, relation, tail, kind, document in LINKS
    ]  # fmt: skip
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["edge_id"]), schema=EDGES)


def _communities() -> pa.Table:
    rows = [
        {"entity_id": key(node), "community_id": key(GROUPS.get(node, "right"))} for node in NODES
    ]
    return pa.Table.from_pylist(rows, schema=COMMUNITIES)


def _tree() -> tuple[pa.Table, pa.Table]:
    topics = [{"ref_id": key(g), "name": name, "text": text} for g, (name, text) in TOPICS.items()]
    keywords = [
        {"kind": "keyword", "parent_id": f"4:{key(group)}", "ref_id": key(node),
         "name": NODES[node][0], "community_id": key(group)}
        for node, group in KEYWORDS.items()
    ]  # fmt: skip
    entity = {**keywords[0], "kind": "entity", "ref_id": key("guide")}
    return (
        pa.Table.from_pylist(topics, schema=TOPIC_SCHEMA),
        pa.Table.from_pylist([*keywords, entity], schema=NODE_SCHEMA),
    )


def _table(folder: Path, name: str, rows: list[dict[str, Any]], schema: pa.Schema) -> Path:
    blank = {f.name: None if f.nullable else empty_value(f.type) for f in schema}
    table = pa.Table.from_pylist([{**blank, **row} for row in rows], schema=schema)
    path = folder / f"{name}.parquet"
    pq.write_table(conform(table, schema), path)
    return path
