"""The graph channel: windows reached through entities, triples and communities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.hits import FoundWindows
from srrag.index.graph_reader import GraphIndex, GraphLimits, GraphQuestion, GraphWeights, Reached
from srrag.retrieve.channel import Search, SearchChannel
from srrag.schema import HITS, PATHS
from srrag.step import Place


@dataclass(frozen=True, kw_only=True)
class SearchGraph(SearchChannel):
    """Find the `k` best windows (Table S3 of sr-rag: 120) that mention an entity or triple.

    Entities, triples and communities are matched separately, each by the vectors in its own column:
    float32 vectors per question, or none to skip the part. `types` names a column that lists, per
    question, the entity types to search. The column of paths holds, for each hit, the entity, edge
    and community that contribute most to it.
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

    def columns(self, found: FoundWindows) -> list[pa.Array]:
        """The paths and the hits."""
        return [found.path_lists(), found.hits()]

    def searcher(self, at: Place) -> Search:
        """Map the index."""
        index = GraphIndex(at.artifact(self.index), self.weights, self.limits)

        def search(batch: pa.Table, tracks: Sequence[Sequence[str]]) -> list[FoundWindows]:
            rows = [index.search(row, self.k, tracks) for row in self._questions(batch)]
            return [_found([row[n] for row in rows]) for n in range(len(tracks))]

        return search

    def _questions(self, batch: pa.Table) -> list[GraphQuestion]:
        names = ("query_vector", self.entity_vectors, self.triple_vectors, self.community_vectors)
        columns = {name: batch[name].to_pylist() for name in names}
        texts = batch["text"].to_pylist()
        types = batch[self.types].to_pylist() if self.types else [()] * len(texts)
        found = []
        for row, text in enumerate(texts):
            vector = np.frombuffer(columns["query_vector"][row], np.float32)
            # One array per column, so that parts that share a column are scored once.
            vectors: dict[str, Any] = {
                name: np.frombuffer(column[row], np.float32).reshape(-1, len(vector))
                for name, column in columns.items()
            }
            entity, triple, community = (vectors[name] for name in names[1:])
            found.append(GraphQuestion(text, vector, entity, triple, community, tuple(types[row])))
        return found


def _found(reached: Sequence[Reached]) -> FoundWindows:
    return FoundWindows.of(
        [(item.unit_ids, item.scores) for item in reached],
        [(item.entity_ids, item.edge_ids, item.community_ids) for item in reached],
    )
