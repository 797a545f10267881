"""Search results as NumPy arrays, their order, and the conversions to and from HITS columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.fusion import Ranking
from srrag.core.schema import HITS, PATHS

Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FoundWindows:
    """The windows that a search found for a batch of questions, best first for each question.

    `unit_ids`, `scores` (float32) and the columns of `told` (those of PATHS; none: all are empty)
    are flat arrays over all questions; `offsets` (questions + 1) marks where each question begins.
    """

    unit_ids: pa.Array
    scores: Floats
    offsets: Offsets
    told: Sequence[pa.Array] = ()

    @classmethod
    def of(
        cls,
        ranked: Sequence[tuple[pa.Array, Floats]],
        paths: Sequence[Sequence[pa.Array]] = (),
    ) -> FoundWindows:
        """Concatenate ids, scores and any PATHS columns; one item a question."""
        ids = _flat([ids for ids, _ in ranked])
        scores = np.concatenate([np.zeros(0, np.float32), *(scores for _, scores in ranked)])
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids, _ in ranked], dtype=np.int64)])
        return cls(ids, scores, offsets, [_flat(column) for column in zip(*paths, strict=True)])

    @property
    def paths(self) -> pa.StructArray:
        """The structs of PATHS, flat as the ids."""
        fields = list(PATHS.value_type)
        nothing = [pa.repeat("", len(self.unit_ids))] * len(fields)
        return pa.StructArray.from_arrays(self.told or nothing, fields=fields)

    @property
    def ranks(self) -> Offsets:
        """The rank of each window in its question's list, from 1."""
        return ranks(np.diff(self.offsets))

    def hits(self) -> pa.Array:
        """The results as a HITS column, one list a question."""
        return pack_flat(self.unit_ids, self.scores, self.ranks, self.offsets)

    def path_lists(self) -> pa.Array:
        """The paths as a PATHS column, parallel to the hits."""
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), self.paths).cast(PATHS)


def ranks(sizes: npt.NDArray[Any]) -> Offsets:
    """Count from 1 within each list of these sizes, flat."""
    starts = np.cumsum(sizes) - sizes
    found: Offsets = np.arange(1, int(sizes.sum()) + 1) - np.repeat(starts, sizes)
    return found


def _flat(columns: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *(c.cast(pa.string()) for c in columns)])


def pack_flat(
    ids: pa.Array, scores: npt.NDArray[Any], ranks: npt.NDArray[Any], offsets: npt.NDArray[Any]
) -> pa.Array:
    """Build a HITS column from flat arrays and list offsets (rows + 1)."""
    structs = pa.StructArray.from_arrays(
        [
            ids,
            pa.array(np.asarray(scores, np.float32)),
            pa.array(np.asarray(ranks, np.int32)),
        ],
        fields=list(HITS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=HITS)


def unpack_hits(column: pa.ChunkedArray) -> tuple[pa.Array, Floats, Offsets]:
    """Return the flat unit ids, flat scores and list offsets (rows + 1) of a HITS column."""
    lists = column.combine_chunks()
    flat = lists.flatten()
    offsets = np.asarray(lists.offsets, dtype=np.int64)
    return flat.field(0), np.asarray(flat.field(1), dtype=np.float32), offsets - offsets[0]


def codes(columns: list[pa.Array]) -> tuple[pa.Array, list[Ints]]:
    """Number the ids of several columns by their sorted names; returns the names and the codes."""
    joined = pa.concat_arrays(columns).dictionary_encode()
    order = pc.array_sort_indices(joined.dictionary)
    place = np.empty(len(order), np.int64)
    place[np.asarray(order)] = np.arange(len(order))
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return joined.dictionary.take(order), np.split(place[np.asarray(joined.indices)], ends)


def pack_ranking(ranking: Ranking, names: pa.Array, num_rows: int, depth: int = 0) -> pa.Array:
    """Build a HITS column of `num_rows` lists from a ranking over all rows."""
    keep = ranking.rank <= depth if depth else np.ones(len(ranking.rank), dtype=bool)
    query = ranking.query[keep]
    offsets = np.searchsorted(query, np.arange(num_rows + 1))
    ids = names.take(pa.array(ranking.key[keep]))
    return pack_flat(ids, ranking.score[keep], ranking.rank[keep], offsets)


Ranked = tuple[pa.Array, npt.NDArray[np.float32]]
"""Ids and scores of one search, best first."""

SCORE_DECIMALS = 5
"""Rankings sort by the score rounded to this many decimals, then by id."""


def rank(ids: pa.Array, scores: npt.NDArray[np.float32], k: int) -> Ranked:
    """Sort by rounded score, then by id, and keep k; the order does not depend on the batch."""
    falling = -np.round(scores, SCORE_DECIMALS)
    order = np.argsort(falling, kind="stable")
    ordered = falling[order]
    if (ordered[1:] == ordered[:-1]).any():
        by_id = np.asarray(pc.rank(ids, tiebreaker="dense"))  # NumPy would compare Python's strings
        order = np.lexsort((by_id, falling))
    return ids.take(pa.array(order[:k])), scores[order[:k]]


def tied(first: Any, second: Any) -> Any:
    """Whether two scores are equal to the ranking."""
    return np.round(first, SCORE_DECIMALS) == np.round(second, SCORE_DECIMALS)


def merge(found: Sequence[Ranked], k: int) -> Ranked:
    """Merge searches that share no unit; returns the k best."""
    return rank(*_joined(found), k)


def pool(found: Sequence[Ranked], k: int) -> Ranked:
    """Merge searches that may share units, each unit with its best score; returns the k best."""
    if len(found) == 1:
        return found[0][0][:k], found[0][1][:k]
    ids, scores = _joined(found)
    coded = ids.dictionary_encode()
    best = np.full(len(coded.dictionary), -np.inf, np.float32)
    np.maximum.at(best, np.asarray(coded.indices), scores)
    return rank(coded.dictionary, best, k)


def _joined(found: Sequence[Ranked]) -> Ranked:
    ids = pa.concat_arrays([pa.array([], pa.string()), *(ids for ids, _ in found)])
    scores = [np.zeros(0, np.float32), *(scores for _, scores in found)]
    return ids, np.concatenate(scores).astype(np.float32)


def best_places(scores: npt.NDArray[np.float64], rows: Ints, documents: Ints) -> Ints:
    """For each hit, the position of the best hit of its document in the same question: (hits,).

    `rows` holds the question of each hit, `documents` a number for each document. Ties go to the
    first.
    """
    order = np.lexsort((np.arange(len(scores)), -scores, documents, rows))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(rows[order]) != 0) | (np.diff(documents[order]) != 0)
    found = np.empty(len(order), np.int64)
    found[order] = order[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    return found
