"""The graph channel: windows reached through entities, triples and communities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.index.graph_reader import GraphIndex, GraphLimits, GraphQuestion, GraphWeights, Reached
from srrag.retrieve.hits import pack_hits
from srrag.schema import HITS, PATHS
from srrag.step import Function, Place, Step


@dataclass(frozen=True, kw_only=True)
class SearchGraph(Step):
    """The `k` best windows (Table S3 of sr-rag: 120) that mention an entity or triple.

    Entities, triples and communities are matched apart from each other, each by the vectors of
    its own column: one or several float32 vectors a question, none to leave the part out. `types`
    names a column of entity types to keep to, a list a question. Beside the hits stand the
    `paths`, one a hit: the entity, edge and community that speak most for the window.
    """

    index: str = "graph"
    into: str = "hits_graph"
    paths: str = "paths_graph"
    k: int = 120
    entity_vectors: str = "query_vector"
    triple_vectors: str = "query_vector"
    community_vectors: str = "query_vector"
    types: str = ""
    weights: GraphWeights = field(default_factory=GraphWeights)
    limits: GraphLimits = field(default_factory=GraphLimits)

    def __post_init__(self) -> None:
        """Raise ValueError for a search of nothing."""
        if self.k < 1:
            raise ValueError(f"k is {self.k}: a search finds at least 1")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question, its vector, and the columns of each part."""
        parts = (self.entity_vectors, self.triple_vectors, self.community_vectors)
        types = (self.types,) if self.types else ()
        return tuple(dict.fromkeys(("text", "query_vector", *parts, *types)))

    @property
    def writes(self) -> pa.Schema:
        """The path to each hit of this channel, and the hits."""
        return pa.schema([pa.field(self.paths, PATHS), pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The index."""
        return (self.index,)

    def open(self, at: Place) -> Function:
        """Map the index."""
        index = GraphIndex(at.artifact(self.index), self.weights, self.limits)

        def run(batch: pa.Table) -> pa.Table:
            found = [index.search(row, self.k) for row in self._questions(batch)]
            hits = pack_hits([(item.unit_ids, item.scores) for item in found])
            batch = batch.append_column(self.writes.field(0), pack_paths(found))
            return batch.append_column(self.writes.field(1), hits)

        return run

    def _questions(self, batch: pa.Table) -> list[GraphQuestion]:
        names = ("query_vector", self.entity_vectors, self.triple_vectors, self.community_vectors)
        columns = {name: batch[name].to_pylist() for name in names}
        texts = batch["text"].to_pylist()
        types = batch[self.types].to_pylist() if self.types else [()] * len(texts)
        found = []
        for row, text in enumerate(texts):
            vector = np.frombuffer(columns["query_vector"][row], np.float32)
            # One array a column, so that parts which share a column are scored once.
            vectors: dict[str, Any] = {
                name: np.frombuffer(column[row], np.float32).reshape(-1, len(vector))
                for name, column in columns.items()
            }
            entity, triple, community = (vectors[name] for name in names[1:])
            found.append(GraphQuestion(text, vector, entity, triple, community, tuple(types[row])))
        return found


def pack_paths(found: list[Reached]) -> pa.Array:
    """PATHS, parallel to the hits."""
    sizes = [len(item.unit_ids) for item in found]
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    columns = [
        pa.array([value for item in found for value in getattr(item, name)], pa.string())
        for name in ("entity_ids", "edge_ids", "community_ids")
    ]
    structs = pa.StructArray.from_arrays(columns, fields=list(PATHS.value_type))
    return pa.ListArray.from_arrays(offsets, structs).cast(PATHS)
