"""Dense and BM25 indexes in LanceDB, an embedded engine, in place of this package's own.

`index=lancedb` (the extra `lancedb`) chooses them at a build; a search detects which engine holds a
root's indexes. docs/figures.md has its cost.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.standing import GRADES, counted_as
from srrag.core.step import Build, Place
from srrag.index.dense import paired_parts
from srrag.index.dense_shards import Part, grade_codes
from srrag.index.opened import SETTINGS, TABLE, TERMS, LanceDense, lancedb
from srrag.index.parts import Matrix, check_finite, unpack_vectors
from srrag.index.titles import TITLE_WEIGHT, title_texts, with_titles
from srrag.index.words import MAX_TERM_CHARS, analyzer
from srrag.storage.atomic_write import commit, commit_json
from srrag.storage.manifest import read_live
from srrag.storage.mapped_table import save_table

_LISTS_PER_ROOT = 4
_RECALL_QUERIES = 200
_RECALL_DEPTH = 100


@dataclass(frozen=True, kw_only=True)
class BuildLanceDense(Build):
    """Inner-product search over L2-normalised vectors in one LanceDB table, graded by a column.

    Up to `flat_rows` windows are searched exactly. Above that, it trains 4·√n inverted lists, of
    which a search probes `probes`; with `pq_bytes` they hold codes of so many bytes, and the
    vectors rank the best `rescored`·k by code. The figures tell recall@100 against exact search on
    200 vectors of the index. Each version is written whole. Raises ValueError for a vector without
    a window.
    """

    vectors: str = "vectors"
    windows: str = "windows"
    titles: str = ""
    title_weight: float = TITLE_WEIGHT
    flat_rows: int = 200_000
    probes: int = 64
    pq_bytes: int | None = None
    rescored: int = 10
    seed: int = 0

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the table and `lance.json`."""
        parts = paired_parts(inputs, self.vectors, self.windows, self.titles, self.title_weight)
        blocks = chain.from_iterable(map(_graded, parts))
        sample = _Sample(self.seed)
        first = next(blocks, None)
        if first is None:
            raise ValueError("there is no window to index")
        dimension = first[2].shape[1]
        schema = pa.schema([
            pa.field("unit_id", pa.string()), pa.field("grade", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), dimension)),
        ])  # fmt: skip
        batches = (sample.of(block, schema) for block in chain([first], blocks))
        table = lancedb().connect(str(out)).create_table(TABLE, batches, schema=schema)
        rows = table.count_rows()
        exact = rows <= self.flat_rows
        _filtered_by_grade(table)
        if not exact:
            table.create_index("vector", config=self._lists(rows, dimension))
        commit_json(out / SETTINGS, {
            "rows": rows, "dimension": dimension, "probes": 0 if exact else self.probes,
            "refine": 0 if exact or self.pq_bytes is None else self.rescored,
        })  # fmt: skip
        return {
            "windows": rows,
            "exact": rows if exact else 0,
            "recall_at_100": 1.0 if exact else _recall(out, table, sample.vectors),
            "bytes_per_vector": round(_size(out) / rows, 1),
            "made_on": f"lancedb {importlib.import_module('lancedb').__version__}",
        }

    def _lists(self, rows: int, dimension: int) -> Any:
        kinds = importlib.import_module("lancedb.index")
        shared = {"distance_type": "dot", "num_partitions": int(_LISTS_PER_ROOT * np.sqrt(rows))}
        if self.pq_bytes is None:
            return kinds.IvfFlat(**shared)
        if dimension % self.pq_bytes:
            raise ValueError(
                f"pq_bytes: {self.pq_bytes} does not divide the dimension, {dimension}"
            )
        return kinds.IvfPq(**shared, num_sub_vectors=self.pq_bytes)


@dataclass(frozen=True, kw_only=True)
class BuildLanceSparse(Build):
    """BM25 of the windows' text in one LanceDB table, graded by a column.

    The table holds the same terms as this package's own index (`srrag.index.words`), so both find
    the same words. `titles` and `own_field` are those of BuildSparseIndex. How many windows hold
    each term stands beside the table. Each version is written whole.
    """

    windows: str = "windows"
    titles: str = ""
    own_field: bool = True

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the table, `terms.arrow` and `lance.json`."""
        titles = inputs[self.titles] if self.titles else []
        if titles and {path.name for path in titles} != {p.name for p in inputs[self.windows]}:
            raise ValueError(
                f"{self.windows} and {self.titles} are not parts of the same names; "
                "run the build again"
            )
        titled = bool(titles) and self.own_field
        names = ["unit_id", "grade", "text", *(["title"] if titled else [])]
        schema = pa.schema([pa.field(name, pa.string()) for name in names])
        held: Counter[str] = Counter()
        batches = _terms(inputs[self.windows], titles, schema, held)
        table = lancedb().connect(str(out)).create_table(TABLE, batches, schema=schema)
        _filtered_by_grade(table)
        words = importlib.import_module("lancedb.index").FTS(**_AS_IT_IS)
        for name in names[2:]:
            table.create_index(name, config=words)
        ordered = sorted(held)
        told = pa.table({
            "term": pa.array(ordered, pa.string()),
            "windows": pa.array([held[term] for term in ordered], pa.int64()),
        })  # fmt: skip
        commit(out / TERMS, partial(save_table, told))
        rows = table.count_rows()
        commit_json(out / SETTINGS, {"rows": rows, "titled": titled})
        return {"windows": rows}


_AS_IT_IS = {
    "base_tokenizer": "whitespace", "lower_case": False, "stem": False, "remove_stop_words": False,
    "ascii_folding": False, "with_position": False, "max_token_length": MAX_TERM_CHARS,
}  # fmt: skip
"""Terms are indexed unchanged, because the package's own analyzer made them."""

_Block = tuple[pa.Array, pa.Array, Matrix]


def _graded(part: Part) -> Iterator[_Block]:
    """The unit ids, grades and vectors of a part, if it has any."""
    (table,) = read_live([part.vectors], ("unit_id", "vector"))
    if not len(table):
        return
    grades = pa.array(GRADES).take(pa.array(grade_codes(part)))
    ids, block = table["unit_id"].combine_chunks(), unpack_vectors(table["vector"])
    check_finite(block, ids, part.vectors)
    if part.titles is not None:
        block = with_titles(block, ids, part.windows, part.titles, part.title_weight)
    yield ids, grades, block


class _Sample:
    """So many vectors, drawn from all that pass."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        self._lots = np.zeros(0)
        self.vectors: Matrix = np.zeros((0, 0), np.float32)

    def of(self, block: _Block, schema: pa.Schema) -> pa.RecordBatch:
        """Draw from a block; returns it as a batch of the table."""
        ids, grades, matrix = block
        dimension = schema.field("vector").type.list_size
        if matrix.shape[1] != dimension:
            raise ValueError(f"vectors of {matrix.shape[1]} numbers, and {dimension} before")
        lots = np.concatenate([self._lots, self._draw.random(len(matrix))])
        least = np.argsort(lots)[:_RECALL_QUERIES]
        kept = self.vectors.reshape(-1, dimension)
        self._lots, self.vectors = lots[least], np.concatenate([kept, matrix])[least]
        values = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dimension)
        return pa.record_batch([ids, grades, values], schema=schema)


def _terms(
    windows: Sequence[Path], titles: Sequence[Path], schema: pa.Schema, held: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """The terms of texts and titles, part by part; `held` counts the windows of a term."""
    read = analyzer()
    titled = "title" in schema.names
    for table, named in title_texts(windows, titles):
        texts = table["text"].to_pylist()
        if not titled:
            texts = [f"{title} {text}" for title, text in zip(named, texts, strict=True)]
        terms = [read.analyze(text) for text in texts]
        for each in terms:
            held.update(set(each))
        columns = [table["unit_id"].combine_chunks(), counted_as(table["grade"]).combine_chunks(),
                   pa.array([" ".join(each) for each in terms], pa.string())]  # fmt: skip
        if titled:
            spoken = [" ".join(read.analyze(title)) for title in named]
            columns.append(pa.array(spoken, pa.string()))
        yield pa.record_batch([column.cast(pa.string()) for column in columns], schema=schema)


def _filtered_by_grade(table: Any) -> None:
    kinds = importlib.import_module("lancedb.index")
    table.create_index("grade", config=kinds.Bitmap())


def _recall(out: Path, table: Any, sample: Matrix) -> float:
    """How many of the nearest 100 of these vectors the index finds."""
    index, shared = LanceDense(out), 0
    found = index.search(sample, _RECALL_DEPTH)
    for (ids, _), vector in zip(found, sample, strict=True):
        exact = table.search(vector).distance_type("dot").bypass_vector_index()
        nearest = exact.select(["unit_id", "_distance"]).limit(_RECALL_DEPTH).to_arrow()
        shared += len(set(ids.to_pylist()) & set(nearest["unit_id"].to_pylist()))
    return round(shared / (_RECALL_DEPTH * len(sample)), 4)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
