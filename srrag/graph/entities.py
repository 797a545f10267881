"""Merge facts into a graph: entities by type and normalised name, edges between them.

Nodes and edges keep all their mentions. An attribute belongs to its entity, so equal values of two
entities are two nodes. Synonyms are not merged (§3 of sr-rag gives the reasons).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.graph.incremental_merge import revised
from srrag.graph.partition import SIDES, merge_parts, on_threads, read_facts, write_rows
from srrag.spec import place_field
from srrag.step import Build, Place, PreviousVersion
from srrag.storage.mirror import opened


@dataclass(frozen=True, kw_only=True)
class MergeEntities(Build):
    """TRIPLES → ENTITIES and EDGES, the same for any order and batching of the input.

    `bucket_facts` bounds memory: each thread groups about that many facts at a time.
    """

    triples: str = "triples"
    bucket_facts: int = place_field(1 << 19)

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `entities.parquet`, `edges.parquet` and `sources.parquet` from all parts.

        Up to one bucket of facts is merged in this process, more on the workers of the place.
        """
        paths, workers, spread = inputs[self.triples], at.threads, on_threads(at.threads)
        facts = _facts(paths)
        if at.spread is not None and facts > self.bucket_facts:
            workers, spread = min(len(paths), 2 * facts // self.bucket_facts), at.spread
        sources, rows = merge_parts(
            paths, out, bucket_facts=self.bucket_facts, workers=workers, spread=spread
        )
        return _finish(sources, rows, out)

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Write the same files from the previous version and the added and removed parts."""
        paths = inputs[self.triples]
        came = [path for path in paths if path not in former.kept]
        sources = pq.read_table(former.folder / "sources.parquet")
        names = [path.name for path in paths if path in former.kept]
        kept = pc.is_in(sources["part"], pa.array(names, pa.string()))
        gone = pc.unique(sources.filter(pc.invert(kept))["doc_id"])
        stay = sources.filter(kept)
        if _facts(came) > self.bucket_facts or pc.any(pc.is_in(stay["doc_id"], gone)).as_py():
            return self.build(inputs, out, at)
        keyed, added = read_facts(came)
        rows = {
            name: write_rows(
                out / f"{name}.parquet",
                revised(former.folder / f"{name}.parquet", side, gone, keyed[name]),
                name,
            )
            for name, side in SIDES.items()
        }
        return _finish(pa.concat_tables([stay, added]), rows, out)


def _facts(paths: Sequence[Path]) -> int:
    return sum(int(pq.read_metadata(opened(path)).num_rows) for path in paths)


def _finish(sources: pa.Table, rows: Mapping[str, int], out: Path) -> dict[str, float | int | str]:
    pq.write_table(
        sources.sort_by([("part", "ascending"), ("doc_id", "ascending")]), out / "sources.parquet"
    )
    return {**rows, "facts": pc.sum(sources["facts"], min_count=0).as_py()}
