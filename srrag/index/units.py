"""Build the units index: text and document of every window, as files for memory-mapping."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from srrag.core.step import Place, PreviousVersion
from srrag.core.units import DOCUMENT_COLUMNS, LOOKED_UP, UNIT_COLUMNS, map_tables, studies_of
from srrag.index.shard_plan import (
    ShardedBuild,
    former_shards,
    link_shards,
    part_rows,
    regroup,
    write_each,
)
from srrag.storage.manifest import read_live
from srrag.storage.mapped_table import BATCH_BYTES, IndexShard, Lookup, write_lookup, write_shards


@dataclass(frozen=True)
class _Draft:
    """A shard to write: its windows and the documents of the same parts."""

    shard: IndexShard
    windows: tuple[Path, ...]
    documents: tuple[Path, ...]
    out: Path


@dataclass(frozen=True, kw_only=True)
class BuildUnits(ShardedBuild):
    """Writes windows and documents as Arrow files for memory-mapping, shard by shard.

    A document that is one section of a paper, like BEIR's passages, names the section in its
    metadata. The index stores it as the document's `section`, and for its windows without a
    section. Documents of one PMID are one study. An update links the shards whose parts stand.
    """

    version: ClassVar[int] = 3

    windows: str = "windows"
    documents: str = "documents"

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write units, documents and their lookups by shard, and the windows of each study."""
        windows = {path.name: path for path in inputs[self.windows]}
        documents = {path.name: path for path in inputs[self.documents]}
        if not windows:
            raise ValueError("there is no part to index")
        rows = part_rows(list(windows.values()))
        kept = () if former is None else _kept(windows, documents, former)
        stand, new = regroup(rows, former_shards(former), kept, self.shard_rows)
        if windows.keys() != documents.keys():  # no key links windows to documents
            parts = tuple(dict.fromkeys([*windows, *documents]))
            stand, new = [], [IndexShard(0, parts, sum(rows.values()))]
        link_shards(stand, _FILES, former, out)
        drafts = [
            _Draft(
                shard,
                tuple(windows[part] for part in shard.parts if part in windows),
                tuple(documents[part] for part in shard.parts if part in documents),
                out,
            )
            for shard in new
        ]
        made = write_each(_write_shard, drafts, sum(s.rows for s in new), self.shard_rows, at)
        write_shards([*stand, *made], out)
        for name in LOOKED_UP:
            Lookup.of(out, name).check_unique()
        units, known = map_tables(out)
        for name, values in studies_of(units["doc_id"], known).items():
            np.save(out / f"{name}.npy", values)
        return {"windows": len(units), "documents": len(known)}


_FILES = tuple(
    f"{name}.{ending}" for name in LOOKED_UP for ending in ("arrow", "keys.npy", "rows.npy")
)


def _kept(
    windows: Mapping[str, Path], documents: Mapping[str, Path], former: PreviousVersion
) -> list[str]:
    """The names of parts whose windows and documents both stand as they were."""
    kept = former.kept
    return [n for n in windows if windows[n] in kept and documents.get(n) in kept]


def _write_shard(draft: _Draft) -> IndexShard:
    """Write the files of one shard."""
    columns = (*DOCUMENT_COLUMNS, "metadata")
    for name, paths, wanted in (
        ("units", draft.windows, UNIT_COLUMNS),
        ("documents", draft.documents, columns),
    ):
        ids = _stream(paths, wanted, draft.out / draft.shard.file(f"{name}.arrow"))
        write_lookup(ids, draft.out, draft.shard.file(name))
    return replace(draft.shard, made={"documents": len(ids)})


def _stream(paths: Sequence[Path], columns: Sequence[str], out: Path) -> list[str]:
    """Copy the live rows of the parts into one Arrow file; return their ids (first column)."""
    ids: list[str] = []
    writer: pa.ipc.RecordBatchFileWriter | None = None
    for read in _large(read_live(paths, columns)):
        table = _with_section(read) if "metadata" in columns else read
        if writer is None:
            writer = pa.ipc.new_file(str(out), table.schema)
        writer.write_table(table)
        ids.extend(table[columns[0]].to_pylist())
    assert writer is not None, "a shard has a part"
    writer.close()
    return ids


def _large(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join tables up to some 64 MB, each of one batch: rows are taken batch by batch."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(each.nbytes for each in held) >= BATCH_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held = []
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _with_section(documents: pa.Table) -> pa.Table:
    """Move the section from the documents' metadata into a column, "" for none."""
    told = (json.loads(each or "{}").get("section") for each in documents["metadata"].to_pylist())
    sections = [each if isinstance(each, str) else "" for each in told]
    return documents.drop_columns(["metadata"]).append_column(
        pa.field("section", pa.string(), nullable=False), pa.array(sections, pa.string())
    )
