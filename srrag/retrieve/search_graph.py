"""The graph channel: windows reached through entities, triples and communities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from srrag.core.hits import FoundWindows
from srrag.core.schema import HITS, PATHS
from srrag.core.step import Place
from srrag.index.graph_reader import (
    GraphIndex,
    GraphLimits,
    GraphQuestion,
    GraphWalk,
    GraphWeights,
    Reached,
)
from srrag.retrieve.search import Search, SearchChannel


@dataclass(frozen=True, kw_only=True)
class SearchGraph(SearchChannel):
    """Find the `k` best windows (Table S3 of sr-rag: 120) that the evidence graph leads to.

    Entities, triples and communities are matched separately, each by the words of the question and
    by the vectors in its own column: float32 vectors per question, or none to go by words; entities
    also by the question's own. A walk from the entities spreads over the graph. `types` names a
    column that lists the entity types each question asks for; "" asks for none.

    The column of paths holds, for each hit, the entity, edge and community that contribute most to
    it.
    """

    version: ClassVar[int] = 2

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
    walk: GraphWalk = field(default_factory=GraphWalk)

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
        index = GraphIndex(at.artifact(self.index), self.weights, self.limits, self.walk)

        def search(batch: pa.Table, tracks: Sequence[Sequence[str]]) -> list[FoundWindows]:
            rows = [index.search(row, self.k, tracks) for row in self._questions(batch)]
            return [_found([row[n] for row in rows]) for n in range(len(tracks))]

        return search

    def _questions(self, batch: pa.Table) -> list[GraphQuestion]:
        names = (self.entity_vectors, self.triple_vectors, self.community_vectors)
        columns = {name: batch[name].to_pylist() for name in names}
        texts = batch["text"].to_pylist()
        types = batch[self.types].to_pylist() if self.types else [()] * len(texts)
        if self.entity_vectors != "query_vector":  # an entity's best of the question and its parts
            whole = batch["query_vector"].to_pylist()
            own = zip(whole, columns[self.entity_vectors], strict=True)
            columns = columns | {self.entity_vectors: [a + b for a, b in own]}
        vectors = zip(*(columns[name] for name in names), strict=True)
        return [
            GraphQuestion(text, entity, triple, community, tuple(asked))
            for text, (entity, triple, community), asked in zip(texts, vectors, types, strict=True)
        ]


def _found(reached: Sequence[Reached]) -> FoundWindows:
    return FoundWindows.of(
        [(item.unit_ids, item.scores) for item in reached],
        [(item.entity_ids, item.edge_ids, item.community_ids) for item in reached],
    )
