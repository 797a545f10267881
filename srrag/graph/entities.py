"""Merge facts into a graph: entities by type and normalised name, edges between them.

Nodes and edges keep all their mentions. An attribute belongs to its entity, so equal values of two
entities are two nodes. Synonyms are not merged (§3 of sr-rag gives the reasons).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from srrag.core.spec import place_field
from srrag.core.step import Build, Place
from srrag.graph.partition import merge_parts, on_threads
from srrag.storage.mirror import opened


@dataclass(frozen=True, kw_only=True)
class MergeEntities(Build):
    """TRIPLES → ENTITIES and EDGES, the same for any order and batching of the input.

    Times, arms and general names ("participants") belong to their document and never merge over
    documents.

    `bucket_facts` bounds memory: each thread groups about that many facts at a time.
    """

    version = 3

    triples: str = "triples"
    bucket_facts: int = place_field(1 << 19)

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `entities.parquet` and `edges.parquet` from all parts.

        Up to one bucket of facts is merged in this process, more on the workers of the place.
        """
        paths, workers, spread = inputs[self.triples], at.threads, on_threads(at.threads)
        held = sum(int(pq.read_metadata(opened(path)).num_rows) for path in paths)
        if at.spread is not None and held > self.bucket_facts:
            workers, spread = min(len(paths), 2 * held // self.bucket_facts), at.spread
        facts, rows = merge_parts(
            paths, out, bucket_facts=self.bucket_facts, workers=workers, spread=spread
        )
        return {**rows, "facts": facts}
