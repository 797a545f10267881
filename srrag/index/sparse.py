"""Sparse index: BM25 by Tantivy, written segment by segment, memory-mapped when searched.

BM25 with Tantivy's constants, k1 = 1.2 and b = 0.75.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tantivy

from srrag.index.dense import rank, tied
from srrag.index.parts import read_live
from srrag.step import Build, Place

_ANALYZER = "srrag_english"
_MAX_TERM_CHARS = 64
_HEAP_BYTES = 256_000_000


def analyzer() -> tantivy.TextAnalyzer:
    """Words, folded to lower case and ASCII, without English stop words, stemmed."""
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(_MAX_TERM_CHARS))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stopword("english"))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_integer_field("row", stored=False, fast=True)
    return builder.build()


@dataclass(frozen=True, kw_only=True)
class BuildSparseIndex(Build):
    """An inverted index over the windows' text; one writer thread, so that runs agree."""

    windows: str = "windows"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the index's folder and the unit ids in row order."""
        folder = out / "index"
        folder.mkdir()
        index = tantivy.Index(_schema(), path=str(folder))
        index.register_tokenizer(_ANALYZER, analyzer())
        writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        schema = pa.schema([pa.field("unit_id", pa.string())])
        rows = 0
        with pa.ipc.new_file(str(out / "units.arrow"), schema) as ids:
            for table in read_live(inputs[self.windows], ("unit_id", "text")):
                for text in table["text"].to_pylist():
                    writer.add_document(tantivy.Document(text=[text], row=rows))
                    rows += 1
                ids.write_table(table.select(["unit_id"]).cast(schema))
        writer.commit()
        writer.wait_merging_threads()
        for lock in folder.glob(".tantivy-*.lock"):
            lock.unlink()
        return {"windows": rows}


class SparseIndex:
    """The opened sparse index."""

    def __init__(self, folder: Path) -> None:
        """Map the index and the ids."""
        self._index = tantivy.Index.open(str(folder / "index"))
        self._index.register_tokenizer(_ANALYZER, analyzer())
        self._searcher = self._index.searcher()
        self._schema = _schema()
        self._analyzer = analyzer()
        ids = pa.ipc.open_file(pa.memory_map(str(folder / "units.arrow"))).read_all()
        self.ids = ids["unit_id"].combine_chunks()

    def search(
        self, questions: Sequence[str], k: int
    ) -> list[tuple[pa.Array, npt.NDArray[np.float32]]]:
        """For each question the k best units by BM25 over its terms: ids and scores."""
        return [self._search(question, k) for question in questions]

    def _search(self, question: str, k: int) -> tuple[pa.Array, npt.NDArray[np.float32]]:
        terms = list(dict.fromkeys(self._analyzer.analyze(question)))
        if not terms:
            return self.ids.slice(0, 0), np.zeros(0, np.float32)
        query = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "text", term))
                for term in terms
            ]
        )
        hits = self._hits(query, k)
        rows = self._searcher.fast_field_values("row", [address for _, address in hits])
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        return rank(self.ids.take(pa.array(rows, pa.int64())), scores, k)

    def _hits(self, query: tantivy.Query, k: int) -> list[tuple[float, tantivy.DocAddress]]:
        """The k best and all that tie with the last of them: which of those stay goes by id."""
        depth = k + 1
        while True:
            hits = self._searcher.search(query, depth, count=False).hits
            if len(hits) < depth or not tied(hits[k - 1][0], hits[-1][0]):
                return hits
            depth *= 2
