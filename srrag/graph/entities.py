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

from srrag.core.spec import place_field
from srrag.core.step import Build, Place, PreviousVersion
from srrag.graph.grouping import ungroup
from srrag.graph.incremental_merge import revised
from srrag.graph.layers import count_rows, layer_path, layers_of
from srrag.graph.partition import SIDES, merge_parts, on_threads, read_facts, write_rows
from srrag.storage.links import link_or_copy
from srrag.storage.mirror import opened
from srrag.storage.shards import IndexShard, write_shards

_SOURCES = "sources.parquet"
_FILES = (*(f"{name}.parquet" for name in SIDES), _SOURCES)
_GROWS = 2


@dataclass(frozen=True, kw_only=True)
class MergeEntities(Build):
    """TRIPLES → ENTITIES and EDGES, the same for any order and batching of the input.

    Times, arms and general names ("participants") belong to their document and never merge over
    documents.

    An update that only adds documents writes their mentions as a layer (`srrag.graph.layers`).
    `bucket_facts` bounds memory: each thread groups about that many facts at a time.
    """

    version = 2

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
        """Write new mentions as a layer beside the others, or one layer if a document was removed.

        Layers with at most twice its number of facts are merged into it. Read as a whole
        (`read_rows`), all layers are the tables of a build from nothing.
        """
        paths, layers = inputs[self.triples], layers_of(former.folder)
        came = [path for path in paths if path not in former.kept]
        names = pa.array([path.name for path in paths if path in former.kept], pa.string())
        sources = [_sources(former.folder, layer) for layer in layers]
        held = pa.concat_tables(sources)
        kept = pc.is_in(held["part"], names)
        gone = pc.unique(held.filter(pc.invert(kept))["doc_id"])
        facts = _facts(came)
        stand = 0 if len(gone) else _standing(layers, facts)
        taken = layers[stand:]
        facts += sum(layer.rows for layer in taken[1:])
        again = pc.any(pc.is_in(held.filter(kept)["doc_id"], gone)).as_py()
        if facts > self.bucket_facts or again:
            return self.build(inputs, out, at)
        keyed, added = read_facts(came)
        number = layers[stand - 1].number + 1 if stand else 0
        for name, side in SIDES.items():
            table = former.folder / f"{name}.parquet"
            files = [layer_path(table, layer.number) for layer in taken]
            flat = [ungroup(pq.read_table(file), side.flat) for file in files[1:]]
            new = pa.concat_tables([keyed[name], *(f.filter(_without(f, gone)) for f in flat)])
            rows = revised(files[0], side, gone, new) if files else [side.group(new)]
            write_rows(layer_path(out / table.name, number), rows, name)
        own = [each.filter(_without(each, gone)) for each in sources[stand:]]
        told = pa.concat_tables([*own, added])
        written = _write_sources(told, layer_path(out / _SOURCES, number))
        for layer in layers[:stand]:
            for name in _FILES:
                link_or_copy(*(layer_path(f / name, layer.number) for f in (former.folder, out)))
        if stand:
            write_shards([*layers[:stand], IndexShard(number, (), written)], out)
        return {
            **{name: count_rows(out / f"{name}.parquet") for name in SIDES},
            "facts": written + sum(layer.rows for layer in layers[:stand]),
        }


def _standing(layers: Sequence[IndexShard], facts: int) -> int:
    """How many layers, the first ones, stay as they are where so many facts come."""
    stand = len(layers)
    while stand and layers[stand - 1].rows <= _GROWS * facts:
        stand -= 1
        facts += layers[stand].rows
    return stand


def _without(rows: pa.Table, gone: pa.Array) -> pa.ChunkedArray:
    """Mask the rows whose documents remain."""
    return pc.invert(pc.is_in(rows["doc_id"], gone))


def _facts(paths: Sequence[Path]) -> int:
    return sum(int(pq.read_metadata(opened(path)).num_rows) for path in paths)


def _sources(folder: Path, layer: IndexShard) -> pa.Table:
    return pq.read_table(layer_path(folder / _SOURCES, layer.number))


def _write_sources(sources: pa.Table, path: Path) -> int:
    """Write how many facts each part has of each document; return how many there are."""
    pq.write_table(sources.sort_by([("part", "ascending"), ("doc_id", "ascending")]), path)
    found: int = pc.sum(sources["facts"], min_count=0).as_py()
    return found
