"""The one way in and out of HITS columns: NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.schema import HITS

Floats = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]


def pack_hits(ranked: Sequence[tuple[pa.Array, Floats]]) -> pa.Array:
    """One list of hits a question from ids and scores, best first; ranks start at 1."""
    sizes = [len(ids) for ids, _ in ranked]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    ids = pa.concat_arrays([ids.cast(pa.string()) for ids, _ in ranked] or [pa.array([], "string")])
    scores = np.concatenate([scores for _, scores in ranked]) if ranked else np.zeros(0)
    ranks = np.concatenate([np.arange(1, size + 1) for size in sizes]) if sizes else np.zeros(0)
    return pack_flat(ids, scores, ranks, offsets)


def pack_flat(
    ids: pa.Array, scores: npt.NDArray[Any], ranks: npt.NDArray[Any], offsets: npt.NDArray[Any]
) -> pa.Array:
    """HITS from flat arrays and list offsets."""
    structs = pa.StructArray.from_arrays(
        [
            ids,
            pa.array(np.asarray(scores, np.float32)),
            pa.array(np.asarray(ranks, np.int32)),
        ],
        fields=list(HITS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs).cast(HITS)


def unpack_hits(column: pa.ChunkedArray) -> tuple[pa.Array, Floats, Offsets]:
    """Flat unit ids, flat scores and list offsets (rows + 1) of a HITS column."""
    lists = column.combine_chunks()
    flat = lists.flatten()
    offsets = np.asarray(lists.offsets, dtype=np.int64)
    ids, scores = pc.struct_field(flat, "unit_id"), pc.struct_field(flat, "score")
    return ids, np.asarray(scores, dtype=np.float32), offsets - offsets[0]
