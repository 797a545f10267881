"""Sparse index: BM25 by Tantivy, written segment by segment, memory-mapped when searched.

Tantivy's BM25 constants are k1 = 1.2 and b = 0.75.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tantivy

from srrag.grades import GRADES, counted_as
from srrag.index.parts import link_or_copy
from srrag.index.titles import title_texts
from srrag.ranking import Ranked, rank, tied
from srrag.step import Build, Place, PreviousVersion
from srrag.storage.mapped_table import MappedTable

_ANALYZER = "srrag_english"
_MAX_TERM_CHARS = 64
_HEAP_BYTES = 256_000_000
_INDEX = "index"
_IDS = "units.arrow"
_PARTS = "parts.json"
TITLE_WEIGHT = 0.25
"""What the BM25 score of a title counts for, beside that of the text (docs/ranking.md)."""


def analyzer() -> tantivy.TextAnalyzer:
    """Return an analyzer: words in lower-case ASCII, without English stop words, stemmed."""
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(_MAX_TERM_CHARS))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stopword("english"))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def _schema(titled: bool) -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name=_ANALYZER, index_option="freq")
    if titled:
        builder.add_text_field("title", stored=False, tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_text_field("grade", stored=False, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("row", stored=False, fast=True)
    return builder.build()


@dataclass(frozen=True, kw_only=True)
class BuildSparseIndex(Build):
    """An inverted index over the windows' text; one writer thread makes it reproducible.

    One index holds all grades, with the grade as a second field. A search of some grades uses the
    word statistics of the whole corpus, so scores of all grades are comparable.

    `titles` names the stage of the documents whose titles are searched too, "" for none: as a field
    of their own, or, without `own_field`, before each window's text, as BEIR's baselines do.
    """

    version: ClassVar[int] = 3

    windows: str = "windows"
    titles: str = ""
    own_field: bool = True

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the index's folder, the unit ids in row order, and the names of the parts."""
        (out / _INDEX).mkdir()
        index = tantivy.Index(_schema(self._titled), path=str(out / _INDEX))
        return self._add(index, inputs, inputs[self.windows], _no_ids(), out)

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Add new windows to the previous index, whose segments are linked, not copied.

        BM25 sums its statistics over segments, so scores equal those of a full build. An index that
        has lost a window is rebuilt, because the words of a deleted window would remain.
        """
        paths = inputs[self.windows]
        indexed = json.loads((former.folder / _PARTS).read_text("utf-8"))
        if {path.name for path in paths if path in former.kept} != set(indexed):
            return self.build(inputs, out, at)
        (out / _INDEX).mkdir()
        for path in (former.folder / _INDEX).iterdir():
            if path.suffix != ".lock":
                link_or_copy(path, out / _INDEX / path.name)
        came = [path for path in paths if path not in former.kept]
        index = tantivy.Index.open(str(out / _INDEX))
        return self._add(index, inputs, came, _read_ids(former.folder), out, indexed)

    @property
    def _titled(self) -> bool:
        return bool(self.titles) and self.own_field

    def _add(
        self,
        index: tantivy.Index,
        inputs: Mapping[str, Sequence[Path]],
        paths: Sequence[Path],
        ids: pa.Table,
        out: Path,
        indexed: Sequence[str] = (),
    ) -> dict[str, float | int | str]:
        """Append the live windows of some parts to the index; returns the figures."""
        index.register_tokenizer(_ANALYZER, analyzer())
        writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        rows = len(ids)
        with pa.ipc.new_file(str(out / _IDS), ids.schema) as file:
            file.write_table(ids)
            for table, titles in title_texts(paths, inputs[self.titles] if self.titles else ()):
                grades = counted_as(table["grade"]).to_pylist()
                texts = zip(table["text"].to_pylist(), titles, grades, strict=True)
                for text, title, grade in texts:
                    writer.add_document(self._document(text, title, grade, rows))
                    rows += 1
                file.write_table(table.select(["unit_id"]).cast(ids.schema))
        writer.commit()
        writer.wait_merging_threads()
        for lock in (out / _INDEX).glob(".tantivy-*.lock"):
            lock.unlink()
        names = [*indexed, *(path.name for path in paths)]
        (out / _PARTS).write_text(json.dumps(names, indent=1) + "\n", "utf-8")
        return {"windows": rows}

    def _document(self, text: str, title: str, grade: str, row: int) -> tantivy.Document:
        """A window; Tantivy reads several values of a field one after the other."""
        if self._titled:
            return tantivy.Document(text=[text], title=[title], grade=[grade], row=row)
        return tantivy.Document(text=[title, text] if title else [text], grade=[grade], row=row)


def _no_ids() -> pa.Table:
    return pa.schema([pa.field("unit_id", pa.string())]).empty_table()


def _read_ids(folder: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(folder / _IDS))).read_all()


def _writable_view(folder: Path) -> tempfile.TemporaryDirectory[str] | None:
    """A folder of links to the files of one that cannot be written; Tantivy locks what it reads."""
    if os.access(folder, os.W_OK) or not folder.is_dir():
        return None
    view = tempfile.TemporaryDirectory(prefix="srrag-sparse-")
    for file in folder.iterdir():
        if not file.name.endswith(".lock"):
            (Path(view.name) / file.name).symlink_to(file.resolve())
    return view


class SparseIndex:
    """The opened sparse index."""

    def __init__(self, folder: Path, title_weight: float = TITLE_WEIGHT) -> None:
        """Map the index and the ids; raises ValueError for an index of another version.

        `title_weight` is what a title's score counts for, where titles are a field of their own.
        """
        self._view = _writable_view(folder / _INDEX)
        self._index = tantivy.Index.open(self._view.name if self._view else str(folder / _INDEX))
        self._titled = self._index.schema == _schema(True)
        if not self._titled and self._index.schema != _schema(False):
            raise ValueError(f"{folder}: an index of another version; run the build again")
        self._title_weight = title_weight
        self._index.register_tokenizer(_ANALYZER, analyzer())
        self._searcher = self._index.searcher()
        self._schema = _schema(self._titled)
        self._analyzer = analyzer()
        self.ids = MappedTable.at(folder / _IDS)

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.ids)

    def terms(self, text: str) -> list[str]:
        """The terms of a text as they are indexed."""
        return list(self._analyzer.analyze(text))

    def document_frequency(self, term: str) -> int:
        """How many windows hold an indexed term."""
        return int(self._searcher.doc_freq("text", term))

    def search(self, questions: Sequence[str], k: int, grades: Sequence[str] = ()) -> list[Ranked]:
        """Return the k best units of each question by BM25; no grades means all."""
        return [self._search(question, k, grades) for question in questions]

    def rarities(self, words: Sequence[str], unknown: float) -> npt.NDArray[np.float32]:
        """The IDF of each word's stem, float32 (words,); `unknown` for a word that is left out."""
        stems = [self._analyzer.analyze(word)[:1] for word in words]
        counts = [self._searcher.doc_freq("text", stem[0]) if stem else 0 for stem in stems]
        held = np.array(counts, np.float64)
        idf = np.log1p((len(self.ids) - held + 0.5) / (held + 0.5))
        known = np.array([bool(stem) for stem in stems], np.bool_)
        return np.where(known, idf, unknown).astype(np.float32)

    def _search(self, question: str, k: int, grades: Sequence[str]) -> Ranked:
        terms = list(dict.fromkeys(self._analyzer.analyze(question)))
        if not terms:
            return pa.array([], pa.string()), np.zeros(0, np.float32)
        query = self._within(self._matching(terms), grades)
        hits = self._hits(query, k)
        rows = self._searcher.fast_field_values("row", [address for _, address in hits])
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        found = self.ids.take_column(np.asarray(rows, np.int64), "unit_id")
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
