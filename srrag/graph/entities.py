"""Merge facts into a graph: entities by type and normalised name, edges between them.

Nodes and edges keep all their mentions. An attribute belongs to its entity, so equal values of two
entities are two nodes. Synonyms are not merged (§3 of sr-rag gives the reasons).

Grouping is commutative and associative: group(a + b) == group(ungroup(group(a)) + b), row for row.
So mentions can come in any order and batches, and an update only touches the rows that change.

More than memory holds are spilled by id, and each bucket is grouped separately. Ids are uniform
hashes, so equal ranges of ids hold equal shares of the rows, and concatenated buckets are sorted by
id. The files are the same, byte for byte, for any number of buckets, parts and workers. Calls of
`spill` and `group_bucket` share only a folder, so they can run on threads, in processes or on other
nodes that see it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.schema import EDGES, ENTITIES, non_null
from srrag.core.spec import place_field
from srrag.core.step import Build, ParallelMap, Place, PreviousVersion
from srrag.graph.facts import ENDS, FACT_COLUMNS, LINKS, key_facts
from srrag.storage import mirror
from srrag.storage.atomic_write import commit
from srrag.storage.manifest import read_live
from srrag.storage.mirror import opened

_MENTION = ("doc_id", "unit_id", "char_start", "char_end")


def group_ends(ends: pa.Table) -> pa.Table:
    """Group mentions into ENTITIES, sorted by id; mentions by document, unit and place.

    An entity's name is its most frequent form; ties go to the shortest, then to the first in code
    point order.
    """
    rows, starts = _sorted(ends, "entity_id", "name")
    forms = rows.group_by(["entity_id", "name"]).aggregate([([], "count_all")])
    forms = forms.append_column("length", pc.utf8_length(forms["name"]))
    order = [("entity_id", "ascending"), ("count_all", "descending"), ("length", "ascending")]
    forms = forms.sort_by([*order, ("name", "ascending")])
    columns = [
        rows["entity_id"].take(starts),
        forms["name"].take(_first_rows(forms["entity_id"])),
        rows["type"].take(starts),
        _mentions(rows, starts, ENTITIES),
    ]
    return pa.table(columns, schema=ENTITIES)


def group_links(links: pa.Table) -> pa.Table:
    """Group mentions into EDGES, sorted by id; the confidence is the maximum over mentions."""
    rows, starts = _sorted(links, "edge_id", "confidence")
    confidence = rows["confidence"].to_numpy()
    best = np.maximum.reduceat(confidence, starts.to_numpy()) if len(links) else confidence
    keep = ("edge_id", "kind", "head_id", "relation", "tail_id")
    columns = [
        *(rows[name].take(starts) for name in keep),
        pa.array(best, pa.float32()),
        _mentions(rows, starts, EDGES),
    ]
    return pa.table(columns, schema=EDGES)


def ungroup(table: pa.Table, flat: pa.Schema) -> pa.Table:
    """Invert the grouping: one row for each mention, with the columns of ENDS or LINKS."""
    mentions = table["mentions"].combine_chunks()
    rows = pc.list_parent_indices(mentions)
    inner = mentions.flatten()
    own = {field.name for field in inner.type}
    columns = [
        pc.struct_field(inner, name) if name in own else table[name].combine_chunks().take(rows)
        for name in flat.names
    ]
    return pa.table(columns, schema=flat)


def _sorted(rows: pa.Table, key: str, own: str) -> tuple[pa.Table, pa.Array]:
    """Sort rows by id, then by mention; where each id begins."""
    rows = rows.sort_by([(name, "ascending") for name in (key, *_MENTION, own)])
    return rows, _first_rows(rows[key])


def _first_rows(ids: pa.ChunkedArray) -> pa.Array:
    changes: npt.NDArray[np.bool_] = np.asarray(pc.not_equal(ids[1:], ids[:-1]))
    return pa.array(np.flatnonzero(np.append(len(ids) > 0, changes)))


def _mentions(rows: pa.Table, starts: pa.Array, schema: pa.Schema) -> pa.Array:
    """The list of mentions of each id."""
    mention = schema.field("mentions").type.value_type
    fields = [rows[field.name].combine_chunks() for field in mention]
    offsets = pa.array([*starts.to_pylist(), len(rows)], pa.int32())
    struct = pa.StructArray.from_arrays(fields, fields=list(mention))
    return pa.ListArray.from_arrays(offsets, struct)


_SPILL_FACTS = 1 << 17
_GROUP_ROWS = 1 << 16
_ID_DIGITS = 4
_ID_BITS = 16

SOURCES = non_null("part doc_id facts:long")


@dataclass(frozen=True)
class Side:
    """One table of the graph: its key, its rows, the schema of one mention, its grouping."""

    key: str
    rows: pa.Schema
    flat: pa.Schema
    group: Callable[[pa.Table], pa.Table]


SIDES: Mapping[str, Side] = {
    "entities": Side("entity_id", ENTITIES, ENDS, group_ends),
    "edges": Side("edge_id", EDGES, LINKS, group_links),
}


def on_threads(threads: int) -> ParallelMap:
    """Run calls on threads; Arrow and NumPy release the interpreter's lock."""

    def spread(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(call, items))

    return spread


def spill(lane: tuple[int, Sequence[Path]], folder: Path, buckets: int) -> pa.Table:
    """Assign ids to the live facts of a worker's parts, and write the mentions by bucket.

    Each file holds the mentions of some facts, one record batch a bucket. Returns the number of
    facts of each part and document (SOURCES). The lane's number distinguishes the files of workers.
    """
    lane_number, paths = lane
    sources = [SOURCES.empty_table()]
    for number, facts in enumerate(_read(paths, sources)):
        for (name, side), rows in zip(SIDES.items(), key_facts(facts), strict=True):
            path = folder / f"{name}-{lane_number}-{number}.arrow"
            commit(path, partial(_write, side.flat, list(split(rows, side.key, buckets))))
    return pa.concat_tables(sources)


def read_facts(paths: Sequence[Path]) -> tuple[dict[str, pa.Table], pa.Table]:
    """Assign ids to the live facts of a few parts; returns the mentions by table, and SOURCES."""
    sources = [SOURCES.empty_table()]
    keyed = [key_facts(facts) for facts in _read(paths, sources)]
    mentions = {
        name: pa.concat_tables([side.flat.empty_table(), *(sides[at] for sides in keyed)])
        for at, (name, side) in enumerate(SIDES.items())
    }
    return mentions, pa.concat_tables(sources)


def _read(paths: Sequence[Path], sources: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the live facts of whole parts, about _SPILL_FACTS at a time."""
    held: list[pa.Table] = []
    for path, facts in zip(paths, read_live(paths, FACT_COLUMNS), strict=True):
        sources.append(_source(path.name, facts))
        held.append(facts)
        if sum(map(len, held)) >= _SPILL_FACTS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _source(part: str, facts: pa.Table) -> pa.Table:
    counts = pc.value_counts(facts["doc_id"].combine_chunks())
    documents, facts_of = counts.field("values"), counts.field("counts")
    parts = pa.repeat(pa.scalar(part, pa.string()), len(counts))
    return pa.table([parts, documents, facts_of], schema=SOURCES)


def split(rows: pa.Table, key: str, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each bucket in order; buckets are equal ranges of the id."""
    numbers = _bucket_numbers(rows[key], buckets)
    order = pa.array(np.argsort(numbers, kind="stable"))
    columns = [column.combine_chunks().take(order) for column in rows.columns]
    batch = pa.record_batch(columns, schema=rows.schema)
    ends = np.cumsum(np.bincount(numbers, minlength=buckets)).tolist()
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        yield batch.slice(start, end - start)


def _bucket_numbers(ids: pa.ChunkedArray, buckets: int) -> npt.NDArray[np.uint16]:
    heads = pc.dictionary_encode(pc.utf8_slice_codeunits(ids, 0, _ID_DIGITS).combine_chunks())
    values = np.array([int(head, 16) for head in heads.dictionary.to_pylist()], np.int64)
    numbers = values * buckets >> _ID_BITS
    return np.asarray(numbers[heads.indices.to_numpy()], np.uint16)


def group_bucket(bucket: tuple[str, int], folder: Path) -> Path:
    """Group one bucket of a table into a file of its rows, sorted by id."""
    name, number = bucket
    spilled = sorted(file for file in mirror.files(folder) if file.startswith(f"{name}-"))
    pieces = [_opened(folder / file).get_batch(number) for file in spilled]
    grouped = SIDES[name].group(pa.Table.from_batches(pieces, SIDES[name].flat))
    out = folder / f"grouped-{name}-{number}.arrow"
    commit(out, partial(_write, grouped.schema, grouped.to_batches()))
    return out


def _write(schema: pa.Schema, batches: Sequence[pa.RecordBatch], path: Path) -> None:
    """Write record batches through `commit`, since the worker of a lost node may still write."""
    with pa.ipc.new_file(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _opened(path: Path) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(mirror.opened(path))


def merge_parts(
    paths: Sequence[Path], out: Path, *, bucket_facts: int, workers: int, spread: ParallelMap
) -> tuple[pa.Table, dict[str, int]]:
    """Write each table of the graph from all parts; returns SOURCES and the numbers of rows.

    A bucket of about `bucket_facts` facts bounds each worker's memory; time is linear.
    """
    facts = sum(pq.read_metadata(mirror.opened(path)).num_rows for path in paths)
    buckets = min(1 << _ID_BITS, facts // bucket_facts + 1)
    lanes = [paths[lane::workers] for lane in range(workers)]
    with tempfile.TemporaryDirectory(dir=out, prefix=".spill-") as scratch:
        folder = Path(scratch)
        sources = spread(partial(spill, folder=folder, buckets=buckets), list(enumerate(lanes)))
        work = [(name, bucket) for name in SIDES for bucket in range(buckets)]
        grouped = dict(zip(work, spread(partial(group_bucket, folder=folder), work), strict=True))
        rows = {}
        for name in SIDES:
            tables = (_opened(grouped[name, bucket]).read_all() for bucket in range(buckets))
            rows[name] = write_rows(out / f"{name}.parquet", tables, name)
    return pa.concat_tables(sources), rows


def read_rows(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table of the graph; a column may be a field of the mentions."""
    with pq.ParquetFile(path) as file:
        return file.read(columns=columns)


def write_rows(path: Path, tables: Iterable[pa.Table], name: str) -> int:
    """Write sorted tables as one file with row groups of equal size; returns the number of rows."""
    side, written = SIDES[name], 0
    held = side.rows.empty_table()
    with pq.ParquetWriter(path, side.rows, compression="zstd") as writer:
        for table in tables:
            held = pa.concat_tables([held, table]) if len(held) else table
            written += len(table)
            while len(held) > _GROUP_ROWS:
                writer.write_table(held.slice(0, _GROUP_ROWS).combine_chunks())
                held = held.slice(_GROUP_ROWS)
        if len(held):
            writer.write_table(held.combine_chunks())
    return written


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
