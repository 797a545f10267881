"""Sparse index: BM25 by Tantivy, written shard by shard, memory-mapped when searched.

Tantivy's BM25 constants are k1 = 1.2 and b = 0.75.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tantivy

from srrag.core.hits import Ranked, rank, tied
from srrag.core.standing import GRADES, counted_as
from srrag.core.step import Place, PreviousVersion
from srrag.index.shard_plan import (
    ShardedBuild,
    former_shards,
    link_shards,
    part_rows,
    regroup,
    unchanged,
    write_each,
)
from srrag.index.titles import title_texts
from srrag.index.words import TITLE_WEIGHT, WordIndex, analyzer
from srrag.storage.atomic_write import commit, commit_json, link_or_copy
from srrag.storage.mapped_table import IndexShard, MappedTable, map_table, read_shards, write_shards

_ANALYZER = "srrag_english"
_HEAP_BYTES = 256_000_000
_INDEX = "index"
_IDS = "units.arrow"
_META = "meta.json"
_ROW_BITS = 32
"""A window's number: the lower bits are its row in its shard, the bits above the shard."""


def _schema(titled: bool) -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name=_ANALYZER, index_option="freq")
    if titled:
        builder.add_text_field("title", stored=False, tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_text_field("grade", stored=False, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("row", stored=False, fast=True)
    return builder.build()


@dataclass(frozen=True)
class _Draft:
    """A shard to write: its windows, the documents that name their titles, and where."""

    shard: IndexShard
    windows: tuple[Path, ...]
    titles: tuple[Path, ...]
    own_field: bool
    out: Path


@dataclass(frozen=True, kw_only=True)
class BuildSparseIndex(ShardedBuild):
    """An inverted index over the windows' text, written in shards, searched as one.

    Each shard is written by one thread, anywhere; its segments are then listed in one Tantivy
    index. BM25 sums its statistics over segments, so scores are those of an index of one shard. One
    index holds all grades, with the grade as a second field. A search of some grades uses the word
    statistics of the whole corpus, so scores of all grades are comparable.

    `titles` names the stage of the documents whose titles are searched too, "" for none: as a field
    of their own, or, without `own_field`, before each window's text, as BEIR's baselines do.
    """

    version: ClassVar[int] = 3

    windows: str = "windows"
    titles: str = ""
    own_field: bool = True

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write the index's folder, and the unit ids of each shard in row order.

        A shard that has lost a window is rebuilt, because the words of a deleted window would
        remain.
        """
        windows = {path.name: path for path in inputs[self.windows]}
        titles = {path.name: path for path in inputs[self.titles]} if self.titles else {}
        if self.titles and titles.keys() != windows.keys():
            raise ValueError(
                f"{self.windows} and {self.titles} are not parts of the same names; "
                "run the build again"
            )
        rows = part_rows(list(windows.values()))
        kept = [name for name in windows if unchanged(former, windows[name], titles.get(name))]
        stand, new = regroup(rows, former_shards(former), kept, self.shard_rows)
        (out / _INDEX).mkdir()
        link_shards(stand, [_IDS], former, out)
        for shard in stand:
            assert former is not None, "only a former version has shards"
            for name in shard.made["files"]:  # of the segments
                link_or_copy(former.folder / _INDEX / name, out / _INDEX / name)
        drafts = [
            _Draft(
                shard,
                tuple(windows[part] for part in shard.parts),
                tuple(titles[part] for part in shard.parts if self.titles),
                self.own_field,
                out,
            )
            for shard in new
        ]
        made = write_each(_write_shard, drafts, sum(s.rows for s in new), self.shard_rows, at)
        shards = sorted([*stand, *made], key=lambda shard: shard.number)
        _write_meta(shards, _schema(bool(self.titles) and self.own_field), out)
        write_shards(shards, out)
        return {"windows": sum(int(shard.made["windows"]) for shard in shards)}


def _write_shard(draft: _Draft) -> IndexShard:
    """Write the segments of one shard into the folder of all, and its ids."""
    shard, out = draft.shard, draft.out
    titled = bool(draft.titles) and draft.own_field
    with tempfile.TemporaryDirectory(prefix=".shard-", dir=out) as scratch:
        index = tantivy.Index(_schema(titled), path=scratch)
        index.register_tokenizer(_ANALYZER, analyzer())
        writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        rows, base = 0, shard.number << _ROW_BITS
        ids = pa.schema([pa.field("unit_id", pa.string())])
        with pa.ipc.new_file(str(out / shard.file(_IDS)), ids) as file:
            for table, titles in title_texts(draft.windows, draft.titles):
                grades = counted_as(table["grade"]).to_pylist()
                texts = zip(table["text"].to_pylist(), titles, grades, strict=True)
                for text, title, grade in texts:
                    writer.add_document(_document(text, title, grade, base + rows, titled))
                    rows += 1
                file.write_table(table.select(["unit_id"]).cast(ids))
        writer.commit()
        writer.wait_merging_threads()
        segments = _meta_of(scratch)["segments"]
        wanted = tuple(each["segment_id"].replace("-", "") for each in segments)
        files = [path for path in sorted(Path(scratch).iterdir()) if path.name.startswith(wanted)]
        for path in files:
            commit(out / _INDEX / path.name, partial(os.replace, path))
    names = [path.name for path in files]
    return replace(shard, made={"windows": rows, "segments": segments, "files": names})


def _document(text: str, title: str, grade: str, row: int, titled: bool) -> tantivy.Document:
    """A window; Tantivy reads several values of a field one after the other."""
    if titled:
        return tantivy.Document(text=[text], title=[title], grade=[grade], row=row)
    return tantivy.Document(text=[title, text] if title else [text], grade=[grade], row=row)


def _write_meta(shards: Sequence[IndexShard], schema: tantivy.Schema, out: Path) -> None:
    """List the segments of all shards as those of one index; nobody writes into it again."""
    with tempfile.TemporaryDirectory(prefix=".meta-", dir=out) as scratch:
        tantivy.Index(schema, path=scratch)
        meta = _meta_of(scratch)
    meta["segments"] = [segment for shard in shards for segment in shard.made["segments"]]
    commit_json(out / _INDEX / _META, meta)


def _meta_of(scratch: str) -> dict[str, Any]:
    """Tantivy's metadata of an index, read in a scratch folder that no object store mirrors."""
    meta: dict[str, Any] = json.loads((Path(scratch) / _META).read_text("utf-8"))
    return meta


def _no_ids() -> pa.Table:
    return pa.schema([pa.field("unit_id", pa.string())]).empty_table()


def _writable_view(folder: Path) -> tempfile.TemporaryDirectory[str] | None:
    """A folder of links to the files of one that cannot be written; Tantivy locks what it reads."""
    if os.access(folder, os.W_OK) or not folder.is_dir():
        return None
    view = tempfile.TemporaryDirectory(prefix="srrag-sparse-")
    for file in folder.iterdir():
        if not file.name.endswith(".lock"):
            (Path(view.name) / file.name).symlink_to(file.resolve())
    return view


class SparseIndex(WordIndex):
    """The opened sparse index."""

    def __init__(self, folder: Path, title_weight: float = TITLE_WEIGHT) -> None:
        """Map the index and the ids; raises ValueError for an index of another version.

        `title_weight` is what a title's score counts for, where titles are a field of their own.
        """
        super().__init__()
        self._view = _writable_view(folder / _INDEX)
        self._index = tantivy.Index.open(self._view.name if self._view else str(folder / _INDEX))
        self._titled = self._index.schema == _schema(True)
        if not self._titled and self._index.schema != _schema(False):
            raise ValueError(f"{folder}: an index of another version; run the build again")
        self._title_weight = title_weight
        self._index.register_tokenizer(_ANALYZER, analyzer())
        self._searcher = self._index.searcher()
        self._schema = _schema(self._titled)
        shards = read_shards(folder)
        tables = [map_table(folder / shard.file(_IDS)) for shard in shards]
        self._ids = MappedTable(pa.concat_tables([_no_ids(), *tables]))
        self._base = np.zeros(1 + max((shard.number for shard in shards), default=0), int)
        start = 0
        for shard, table in zip(shards, tables, strict=True):
            self._base[shard.number] = start
            start += len(table)

    def __len__(self) -> int:
        """Number of windows."""
        return len(self._ids)

    def _unit_ids(self, numbers: npt.NDArray[np.int64]) -> pa.Array:
        """The ids of windows by their numbers in the index."""
        own = numbers & ((1 << _ROW_BITS) - 1)
        return self._ids.take_column(self._base[numbers >> _ROW_BITS] + own, "unit_id")

    def document_frequency(self, term: str) -> int:
        """How many windows hold an indexed term."""
        return int(self._searcher.doc_freq("text", term))

    def _search(self, question: str, k: int, grades: Sequence[str]) -> Ranked:
        terms = list(dict.fromkeys(self._analyzer.analyze(question)))
        if not terms:
            return pa.array([], pa.string()), np.zeros(0, np.float32)
        query = self._within(self._matching(terms), grades)
        hits = self._hits(query, k)
        rows = self._searcher.fast_field_values("row", [address for _, address in hits])
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        found = self._unit_ids(np.asarray(rows, np.int64))
        return rank(found, scores, k)

    def _matching(self, terms: Sequence[str]) -> tantivy.Query:
        """BM25 of the text, plus that of the title by its weight."""
        text = self._any("text", terms)
        if not self._titled or not self._title_weight:
            return text
        title = tantivy.Query.boost_query(self._any("title", terms), self._title_weight)
        both = [(tantivy.Occur.Should, each) for each in (text, title)]
        return tantivy.Query.boolean_query(both)

    def _any(self, name: str, terms: Sequence[str]) -> tantivy.Query:
        term = tantivy.Query.term_query
        return tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, term(self._schema, name, each)) for each in terms]
        )

    def _within(self, query: tantivy.Query, grades: Sequence[str]) -> tantivy.Query:
        """Restrict a query to some grades without changing scores; reads the shorter list."""
        others = [grade for grade in GRADES if grade not in grades]
        if not grades or not others:
            return query
        if len(others) < len(grades):
            limit = tantivy.Occur.MustNot, self._any("grade", others)
        else:
            chosen = tantivy.Query.const_score_query(self._any("grade", grades), 0.0)
            limit = tantivy.Occur.Must, chosen
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), limit])

    def _hits(self, query: tantivy.Query, k: int) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the k best and all ties with the last; the ranking decides ties by id."""
        depth = k + 1
        while True:
            hits = self._searcher.search(query, depth, count=False).hits
            if len(hits) < depth or not tied(hits[k - 1][0], hits[-1][0]):
                return hits
            depth *= 2
