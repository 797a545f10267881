"""Communities of the graph by the Leiden algorithm on its edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import graspologic_native
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.ids import segment_id
from srrag.schema import COMMUNITIES
from srrag.step import Build, Place


@dataclass(frozen=True, kw_only=True)
class DetectCommunities(Build):
    """EDGES → COMMUNITIES: every entity is in exactly one; the id is the hash of its members.

    Modularity at `resolution`; edges weigh by their number of mentions.
    """

    entities: str = "entities"
    resolution: float = 1.0
    seed: int = 0

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `communities.parquet`."""
        (folder,) = inputs[self.entities]
        entity_ids = pq.read_table(folder / "entities.parquet", columns=["entity_id"])
        edges = pq.read_table(folder / "edges.parquet", columns=["head_id", "tail_id", "mentions"])
        weights = edges["mentions"].combine_chunks().value_lengths().to_pylist()
        ends = zip(edges["head_id"].to_pylist(), edges["tail_id"].to_pylist(), strict=True)
        # Leiden keeps one edge a pair of entities: several relations add up, in both directions.
        rows: Counter[tuple[str, str]] = Counter()
        for (head, tail), weight in zip(ends, weights, strict=True):
            rows[min(head, tail), max(head, tail)] += weight
        found: dict[str, int] = {}
        modularity = 0.0
        if rows:
            modularity, found = graspologic_native.leiden(
                [(head, tail, float(weight)) for (head, tail), weight in sorted(rows.items())],
                resolution=self.resolution,
                seed=self.seed,
            )
        table = _relation(entity_ids["entity_id"].to_pylist(), found)
        pq.write_table(table, out / "communities.parquet")
        return {
            "communities": len(set(table["community_id"].to_pylist())),
            "modularity": round(float(modularity), 4),
        }


def _relation(entity_ids: Sequence[str], found: Mapping[str, int]) -> pa.Table:
    """Name each community by its members; an entity without edges is one of its own."""
    members: dict[int, list[str]] = {}
    for entity_id in sorted(found):
        members.setdefault(found[entity_id], []).append(entity_id)
    names = {number: segment_id(ids) for number, ids in members.items()}
    return pa.table(
        [
            pa.array(entity_ids, pa.string()),
            pa.array(
                [names[found[e]] if e in found else segment_id([e]) for e in entity_ids],
                pa.string(),
            ),
        ],
        schema=COMMUNITIES,
    )
