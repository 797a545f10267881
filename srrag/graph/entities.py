"""Merge facts into a graph: entities by type and normalised name, edges between them.

Nodes and edges keep all their mentions. An attribute belongs to its entity, so equal values of two
entities are two nodes. Synonyms are not merged (§3 of sr-rag gives the reasons).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.spec import place_field
from srrag.core.step import Build, Place, PreviousVersion
from srrag.graph.partition import (
    SIDES,
    Side,
    merge_parts,
    on_threads,
    read_facts,
    ungroup,
    write_rows,
)
from srrag.storage.mirror import opened

_SOURCES = "sources.parquet"


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
        return {**rows, "facts": _write_sources(sources, out / _SOURCES)}

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Write the former tables without what went and with what came: a full build's very files.

        What comes is merged in this process; more than a bucket of it makes all anew.
        """
        paths = inputs[self.triples]
        came = [path for path in paths if path not in former.kept]
        names = pa.array([path.name for path in paths if path in former.kept], pa.string())
        held = pq.read_table(former.folder / _SOURCES)
        kept = pc.is_in(held["part"], names)
        gone = pc.unique(held.filter(pc.invert(kept))["doc_id"])
        again = pc.any(pc.is_in(held.filter(kept)["doc_id"], gone)).as_py()
        if _facts(came) > self.bucket_facts or again:
            return self.build(inputs, out, at)
        keyed, added = read_facts(came)
        rows = {}
        for name, side in SIDES.items():
            file = f"{name}.parquet"
            tables = revised(former.folder / file, side, gone, keyed[name])
            rows[name] = write_rows(out / file, tables, name)
        told = pa.concat_tables([held.filter(pc.invert(pc.is_in(held["doc_id"], gone))), added])
        return {**rows, "facts": _write_sources(told, out / _SOURCES)}


def revised(former: Path, side: Side, gone: pa.Array, came: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a table without the mentions of documents `gone` and with those of `came`.

    It reads the former table by row group; unchanged rows pass as they are.
    """
    file = pq.ParquetFile(former, memory_map=True)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        here = came
        if group + 1 < file.num_row_groups:
            within = pc.less_equal(came[side.key], table[side.key][-1])
            here, came = came.filter(within), came.filter(pc.invert(within))
        yield _revise(table, side, gone, here)
    if not file.num_row_groups:
        yield side.group(came)


def _revise(table: pa.Table, side: Side, gone: pa.Array, came: pa.Table) -> pa.Table:
    touched = pc.is_in(table[side.key], came[side.key].combine_chunks())
    if len(gone):
        mentions = table["mentions"].combine_chunks()
        lost = pc.is_in(pc.struct_field(mentions.flatten(), "doc_id"), gone)
        rows = pc.unique(pc.list_parent_indices(mentions).filter(lost))
        touched = pc.or_(touched, pc.is_in(pa.array(range(len(table)), rows.type), rows))
    rest = ungroup(table.filter(touched), side.flat)
    rest = rest.filter(pc.invert(pc.is_in(rest["doc_id"], gone)))
    made = side.group(pa.concat_tables([rest, came]))
    both = pa.concat_tables([table, made]).combine_chunks()
    stays = np.flatnonzero(np.invert(touched))
    rows = pa.array(np.concatenate([stays, np.arange(len(table), len(both))]))
    return both.take(rows.take(pc.sort_indices(both[side.key].take(rows))))


def _facts(paths: Sequence[Path]) -> int:
    return sum(int(pq.read_metadata(opened(path)).num_rows) for path in paths)


def _write_sources(sources: pa.Table, path: Path) -> int:
    """Write how many facts each part has of each document; return how many there are."""
    pq.write_table(sources.sort_by([("part", "ascending"), ("doc_id", "ascending")]), path)
    found: int = pc.sum(sources["facts"], min_count=0).as_py()
    return found
