"""Titles of documents: encode them, and add them to the vectors of their windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import TITLES
from srrag.core.step import Function, Place, Step
from srrag.index.parts import Matrix, unpack_vectors
from srrag.model.encoder import Encoder
from srrag.storage.manifest import read_live

TITLE_WEIGHT = 0.25
"""Weight of a title's vector; a window's vector has weight 1 (docs/ranking.md)."""


@dataclass(frozen=True, kw_only=True)
class EncodeTitles(Step):
    """Documents → the vectors of their titles; a document without a title has no row.

    Each document's title is encoded once, not with each window, so windows keep their vectors, and
    searching titles costs one more short text a document.
    """

    encoder: Encoder = field(default_factory=Encoder)

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "reject")
    writes: ClassVar[pa.Schema] = TITLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)

        def run(batch: pa.Table) -> pa.Table:
            kept = batch.select(self.reads)
            titled = pc.not_equal(pc.utf8_trim_whitespace(kept["title"]), "")
            kept = kept.filter(pc.and_(pc.is_null(kept["reject"]), titled))
            vectors = model.encode(kept["title"].to_pylist())
            return pa.table(
                [
                    kept["doc_id"],
                    pa.array([vector.tobytes() for vector in vectors], pa.binary()),
                    pa.nulls(len(kept), TITLES.field("reject").type),
                ],
                schema=TITLES,
            )

        return run


def with_titles(
    matrix: Matrix, unit_ids: pa.Array, windows: Path, titles: Path, weight: float
) -> Matrix:
    """Add `weight` times the title's vector to each window's, at unit length: (windows, dim).

    Windows of documents without a title keep their vectors. A mean-pooled encoder that reads title
    and text at once gives about this vector, with the share of the title's tokens as the weight.
    """
    (titled,) = read_live([titles], ("doc_id", "vector"))
    if not len(titled) or not len(matrix) or not weight:
        return matrix
    (owners,) = read_live([windows], ("unit_id", "doc_id"))
    rows = pc.index_in(unit_ids, value_set=owners["unit_id"].combine_chunks())
    documents = owners["doc_id"].take(rows)
    places = pc.index_in(documents, value_set=titled["doc_id"].combine_chunks())
    some = np.asarray(pc.is_valid(places))
    found = unpack_vectors(titled["vector"])[np.asarray(places.drop_null())]
    mixed = matrix.copy()
    mixed[some] += weight * found
    mixed[some] /= np.linalg.norm(mixed[some], axis=1, keepdims=True)
    return mixed


def title_texts(
    windows: Sequence[Path], documents: Sequence[Path]
) -> Iterator[tuple[pa.Table, list[str]]]:
    """Yield the live windows of each part (unit_id, text, grade), and the title of each, or ""."""
    by_name = {path.name: path for path in documents}
    columns = ("unit_id", "doc_id", "text", "grade")
    for path, table in zip(windows, read_live(windows, columns), strict=True):
        if not documents:
            yield table, [""] * len(table)
            continue
        (of,) = read_live([by_name[path.name]], ("doc_id", "title"))
        rows = pc.index_in(table["doc_id"], value_set=of["doc_id"].combine_chunks())
        yield table, pc.fill_null(of["title"].take(rows), "").to_pylist()
