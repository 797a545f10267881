"""Base of all rerankers: score the hits of a column and rank them into another."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.fusion import rank_scores
from srrag.core.hits import (
    SCORE_DECIMALS,
    Ints,
    Offsets,
    best_places,
    codes,
    pack_ranking,
    unpack_hits,
)
from srrag.core.schema import HITS
from srrag.core.standing import check_grades, counted_as
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units

Floats = npt.NDArray[np.float64]
Score = Callable[[pa.Table, pa.Array, Offsets], npt.NDArray[Any]]
"""Returns a score for each hit, from the questions, the unit ids of all hits, and their offsets."""


@dataclass(frozen=True, kw_only=True)
class Reranker(Step):
    """Rank the windows in the column `hits` by a new score, best first, `into` another column.

    Only the first `keep` of each question go on; 0 keeps all. With `tracks`, lists of grades, each
    track keeps so many of its own, and grades of no track go. Ties, after rounding, are sorted by
    id.
    """

    hits: str
    into: str = "hits"
    keep: int = 0
    tracks: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a negative `keep`, or tracks that are no partition of grades."""
        if self.keep < 0:
            raise ValueError(f"keep is {self.keep}: a number of windows, or 0 for all")
        object.__setattr__(self, "tracks", tuple(tuple(track) for track in self.tracks))
        grades = [grade for track in self.tracks for grade in track]
        check_grades(grades)
        if len(set(grades)) < len(grades) or not all(self.tracks):
            raise ValueError("tracks: each is a list of grades, and no grade stands in two")

    @property
    def writes(self) -> pa.Schema:
        """The reranked hits."""
        return pa.schema([pa.field(self.into, HITS)])

    @abc.abstractmethod
    def scorer(self, at: Place) -> Score:
        """Load models and indexes; return a function that scores each question independently."""

    def open(self, at: Place) -> Function:
        """Load models and indexes."""
        score = self.scorer(at)
        units = open_units(at) if self.tracks else None

        def run(batch: pa.Table) -> pa.Table:
            ids, _, offsets = unpack_hits(batch[self.hits])
            scores = score(batch, ids, offsets)
            if units is None:
                ranked = rank_hits(ids, scores, offsets, self.keep)
            else:
                tracks = _tracks(units, ids, self.tracks)
                ranked = rank_tracks(ids, scores, offsets, tracks, self.keep)
            return batch.append_column(self.writes.field(0), ranked)

        return run


def _tracks(units: Units, ids: pa.Array, tracks: tuple[tuple[str, ...], ...]) -> Ints:
    """The number of each window's track by its grade, -1 for none."""
    grades = counted_as(units.take(ids.to_pylist(), ("grade",))["grade"])
    listed = [(grade, number) for number, track in enumerate(tracks) for grade in track]
    place = pc.index_in(grades, value_set=pa.array([grade for grade, _ in listed], pa.string()))
    numbers = np.array([*(number for _, number in listed), -1], np.int64)
    return numbers[np.asarray(pc.fill_null(place, -1), np.int64)]


def rank_tracks(
    ids: pa.Array, scores: npt.NDArray[Any], offsets: Offsets, tracks: Ints, keep: int
) -> pa.Array:
    """Cut each track of each question to its `keep` best (0: all), then rank what is left."""
    num_tracks = int(tracks.max(initial=0)) + 1
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    names, (keys,) = codes([ids])
    some = np.flatnonzero(tracks >= 0)
    cut = rank_scores(
        rows[some] * num_tracks + tracks[some], keys[some], scores[some], decimals=SCORE_DECIMALS
    )
    kept = cut.rank <= (keep or len(cut.rank))
    merged = rank_scores(
        cut.query[kept] // num_tracks, cut.key[kept], cut.score[kept], decimals=SCORE_DECIMALS
    )
    return pack_ranking(merged, names, len(offsets) - 1)


def rank_hits(ids: pa.Array, scores: npt.NDArray[Any], offsets: Offsets, keep: int = 0) -> pa.Array:
    """Make a sorted HITS column from flat ids and scores; `offsets` delimit the questions."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    names, (keys,) = codes([ids])
    ranking = rank_scores(rows, keys, scores, decimals=SCORE_DECIMALS)
    return pack_ranking(ranking, names, len(offsets) - 1, keep)


def study_numbers(units: Units, ids: pa.Array) -> Ints:
    """The number of each window's study: its document, or all documents of its PMID.

    Passages of one article may be indexed as documents of their own; their PMID joins them.
    """
    return units.window_studies[units.rows(ids.to_pylist())].astype(np.int64)


def best_of_documents(scores: Floats, rows: Ints, units: Units, ids: pa.Array) -> Floats:
    """The best score of each hit's document among the question's hits, (hits,)."""
    best: Floats = scores[best_places(scores, rows, study_numbers(units, ids))]
    return best
