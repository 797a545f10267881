"""Map mentions in chunks to the windows that show them, by document and overlapping span."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.algo.graph_scores import segments

Ints = npt.NDArray[np.int64]

_BATCH_ROWS = 32_768
_DOCUMENT_BITS = 32


class WindowSpans:
    """The spans of all windows, sorted by document and start."""

    def __init__(self, doc_ids: pa.ChunkedArray, starts: Ints, ends: Ints) -> None:
        """Sort the windows, given by row as document and span [start, end)."""
        self.documents = pc.unique(doc_ids)
        document = np.asarray(pc.index_in(doc_ids, value_set=self.documents)).astype(np.int64)
        self.rows = np.lexsort((ends, starts, document))
        base = document[self.rows] << _DOCUMENT_BITS
        self._starts = base + starts[self.rows]
        # The furthest end so far, because the ends of nested windows do not rise.
        self._reach = np.maximum.accumulate(base + ends[self.rows])
        self._ends = base + ends[self.rows]

    def overlapping(self, doc_ids: pa.Array, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Return pairs (mention, window) of overlapping spans; an empty span is a position."""
        found = pc.index_in(doc_ids, value_set=self.documents)
        mention = np.flatnonzero(np.asarray(found.is_valid()))
        base = np.asarray(found.drop_null()).astype(np.int64) << _DOCUMENT_BITS
        first = base + starts[mention]
        last = base + np.maximum(ends[mention], starts[mention] + 1)
        low = np.searchsorted(self._reach, first, "right")
        count = np.maximum(np.searchsorted(self._starts, last, "left") - low, 0)
        pair = np.repeat(np.arange(len(mention)), count)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count) + low[pair]
        real = self._ends[place] > first[pair]
        return mention[pair[real]], self.rows[place[real]]


def mentioned(
    path: Path, rows: Ints, spans: WindowSpans
) -> tuple[npt.NDArray[np.int32], Ints, int]:
    """Return what each window mentions: members of a table, offsets, number of lost mentions.

    The table of the graph at `path` has a column `mentions`. `rows` numbers its rows, -1 to
    leave a row out.
    """
    owners, members, lost, start = [], [], 0, 0
    for mentions in _mention_batches(path):
        number = rows[start : start + len(mentions)]
        start += len(mentions)
        flat = mentions.flatten()
        of_row = number[np.asarray(pc.list_parent_indices(mentions))]
        span = [
            np.asarray(pc.struct_field(flat, name)).astype(np.int64)
            for name in ("char_start", "char_end")
        ]
        mention, window = spans.overlapping(pc.struct_field(flat, "doc_id"), *span)
        lost += int((of_row >= 0).sum() - (of_row[np.unique(mention)] >= 0).sum())
        kept = of_row[mention] >= 0
        owners.append(window[kept])
        members.append(of_row[mention[kept]])
    none = np.zeros(0, np.int64)
    found, offsets = segments(
        np.concatenate([none, *owners]), np.concatenate([none, *members]), len(spans.rows)
    )
    return found, offsets, lost


def _mention_batches(path: Path) -> Iterator[pa.ListArray]:
    for batch in pq.ParquetFile(path).iter_batches(_BATCH_ROWS, columns=["mentions"]):
        yield batch["mentions"]
