"""Merge facts into a graph: entities by type and normalised name, edges between them.

Every mention stays on its node and edge. An attribute belongs to its entity, so equal values of
two entities are two nodes. No synonyms are merged (§3 of sr-rag gives the reasons).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.ids import content_id
from srrag.index.parts import read_live
from srrag.schema import EDGES, ENTITIES
from srrag.step import Build, Place

_BLANKS = re.compile(r"\s+")
_COLUMNS = (
    "fact_id", "doc_id", "unit_id", "kind", "head", "head_type", "relation", "tail", "tail_type",
    "char_start", "char_end", "confidence",
)  # fmt: skip


def normalise(name: str) -> str:
    """Fold case, width and blanks: the key under which one type's names are one entity."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _BLANKS.sub(" ", folded).strip(" .,;:")


@dataclass(frozen=True, kw_only=True)
class MergeEntities(Build):
    """TRIPLES → ENTITIES and EDGES, the same for any order of the input."""

    triples: str = "triples"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `entities.parquet` and `edges.parquet`."""
        parts = list(read_live(inputs[self.triples], _COLUMNS))
        facts = pa.concat_tables(parts).sort_by("fact_id")
        facts = _with_ids(facts)
        entities = _entities(facts)
        edges = _edges(facts)
        pq.write_table(entities, out / "entities.parquet")
        pq.write_table(edges, out / "edges.parquet")
        return {
            "entities": entities.num_rows,
            "edges": edges.num_rows,
            "facts": facts.num_rows,
        }


def _with_ids(facts: pa.Table) -> pa.Table:
    """Add the entity ids of head and tail; names are normalised once a distinct name."""
    normal: dict[str, str] = {}

    def entity(kind: str, name: str) -> str:
        key = normal.get(name)
        if key is None:
            key = normal[name] = normalise(name)
        return content_id(kind, key)

    rows = (facts[name].to_pylist() for name in ("kind", "head", "head_type", "tail", "tail_type"))
    heads, tails = [], []
    for kind, head, head_type, tail, tail_type in zip(*rows, strict=True):
        head_id = entity(head_type, head)
        heads.append(head_id)
        if kind == "attribute":
            tails.append(content_id(head_id, tail_type, normalise(tail)))
        else:
            tails.append(entity(tail_type, tail))
    return facts.append_column("head_id", pa.array(heads, pa.string())).append_column(
        "tail_id", pa.array(tails, pa.string())
    )


def _mentions(table: pa.Table) -> pa.Array:
    names = ("unit_id", "doc_id", "char_start", "char_end")
    return pa.StructArray.from_arrays(
        [table[name].combine_chunks() for name in names], names=list(names)
    )


def _grouped(table: pa.Table, key: str, keep: Sequence[str]) -> tuple[pa.Table, pa.Array]:
    """First value of `keep` and the list of all mentions for each key, sorted by key."""
    table = table.append_column("_row", pa.array(range(table.num_rows), pa.int64()))
    table = table.sort_by([(key, "ascending"), ("_row", "ascending")])
    groups = table.group_by(key, use_threads=False).aggregate(
        [([], "count_all"), *((name, "first") for name in keep)]
    )
    counts = groups["count_all"].combine_chunks()
    offsets = pa.concat_arrays(
        [pa.array([0], pa.int64()), pc.cumulative_sum(counts).cast(pa.int64())]
    ).cast(pa.int32())
    return groups, pa.ListArray.from_arrays(offsets, _mentions(table))


def _entities(facts: pa.Table) -> pa.Table:
    place = ["unit_id", "doc_id", "char_start", "char_end"]
    sides = [
        facts.select([f"{side}_id", side, f"{side}_type", *place]).rename_columns(
            ["entity_id", "name", "type", *place]
        )
        for side in ("head", "tail")
    ]
    groups, mentions = _grouped(pa.concat_tables(sides), "entity_id", ["name", "type"])
    return pa.table(
        [groups["entity_id"], groups["name_first"], groups["type_first"], mentions],
        schema=ENTITIES,
    )


def _edges(facts: pa.Table) -> pa.Table:
    columns = (facts[name].to_pylist() for name in ("head_id", "relation", "tail_id"))
    ids = [content_id(*row) for row in zip(*columns, strict=True)]
    facts = facts.append_column("edge_id", pa.array(ids, pa.string()))
    keep = ["kind", "head_id", "relation", "tail_id"]
    best = facts.group_by("edge_id").aggregate([("confidence", "max")]).sort_by("edge_id")
    groups, mentions = _grouped(facts, "edge_id", keep)
    return pa.table(
        [
            groups["edge_id"],
            *(groups[f"{name}_first"] for name in keep),
            best["confidence_max"],
            mentions,
        ],
        schema=EDGES,
    )
