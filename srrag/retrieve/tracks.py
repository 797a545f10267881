"""Dual-track retrieval: each set of grades is searched in its own partition of every index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.fusion import RRF_K, rank_scores, reciprocal_rank_fusion
from srrag.core.hits import FoundWindows, codes, pack_ranking
from srrag.core.rows import with_columns
from srrag.core.schema import FOUND, HITS
from srrag.core.standing import GRADES, check_grades
from srrag.core.step import Function, Place, Step
from srrag.retrieve.search import SearchChannel

Ints = npt.NDArray[np.int64]
FUSED_DECIMALS = 12


@dataclass(frozen=True, kw_only=True)
class Track:
    """A partition of the windows: those of these `grades`; () means all.

    `depth` is its capacity: how many fused windows it passes on per question, 0 for all.
    """

    name: str
    grades: tuple[str, ...] = ()
    depth: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown grade, or a depth below 0."""
        check_grades(self.grades)
        if self.depth < 0:
            raise ValueError(f"depth of track {self.name!r} is {self.depth}: it cannot be negative")


@dataclass(frozen=True, kw_only=True)
class SearchTracks(Step):
    """Search every channel on every track, and fuse and cut the candidates within each track.

    So the few windows of one grade need not compete with all others (SR-RAG, "EBM-Adaptive
    Retrieval Strategy": grade A, and B to E). Within a track, reciprocal rank fusion (Eq. 1, k =
    60) joins the `k` best windows of each channel and keeps the best `depth`. The windows of all
    tracks then form one list by fused score, ties by id. Grades without a track are not searched.

    `channels` maps names to searches, whose own columns are not written; a null one is left out.
    `found` holds a row for each channel, track and window, `into` the fused hits.
    """

    channels: Mapping[str, SearchChannel | None]
    tracks: tuple[Track, ...] = (Track(name="all"),)
    k: float = RRF_K
    found: str = "found"
    into: str = "hits"

    def __post_init__(self) -> None:
        """Raise ValueError for no channel, no track, or a name or a grade in two tracks."""
        kept = {name: step for name, step in sorted(self.channels.items()) if step is not None}
        object.__setattr__(self, "channels", kept)
        if not kept or not self.tracks:
            raise ValueError("channels and tracks: at least one of each is needed")
        if not self.k >= 0:
            raise ValueError(f"k is {self.k}: it cannot be negative")
        _check_disjoint(self.tracks)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the channels read."""
        return tuple(dict.fromkeys(name for step in self._steps() for name in step.reads))

    @property
    def writes(self) -> pa.Schema:
        """Every find, and the fused hits."""
        return pa.schema([pa.field(self.found, FOUND), pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The channels' indexes."""
        return tuple(dict.fromkeys(name for step in self._steps() for name in step.needs()))

    def identity(self) -> dict[str, Any]:
        """The channels' own."""
        pairs = zip(self.channels, self._steps(), strict=True)
        return {name: found for name, step in pairs if (found := step.identity())}

    def _steps(self) -> list[SearchChannel]:
        return [step for step in self.channels.values() if step is not None]

    def open(self, at: Place) -> Function:
        """Map the indexes."""
        searches = [step.searcher(at) for step in self._steps()]
        grades = [track.grades for track in self.tracks]

        def run(batch: pa.Table) -> pa.Table:
            # One flat table of all finds, sorted by track, then by channel.
            by_channel = [search(batch, grades) for search in searches]
            finds = _Finds([item for track in zip(*by_channel, strict=True) for item in track])
            pairs = [(track.name, name) for track in self.tracks for name in self.channels]
            columns = finds.column(pairs, batch.num_rows), self._fused(finds, batch.num_rows)
            return with_columns(batch, pa.table(columns, schema=self.writes))

        return run

    def _fused(self, finds: _Finds, num_rows: int) -> pa.Array:
        """HITS: fuse and cut each track, then join all tracks into one list."""
        num_tracks = len(self.tracks)
        track = finds.search // len(self.channels)
        fused = reciprocal_rank_fusion(
            finds.row * num_tracks + track, finds.key, finds.rank, k=self.k, decimals=FUSED_DECIMALS
        )
        depths = np.array([track.depth or len(fused.rank) for track in self.tracks])
        kept = fused.rank <= depths[fused.query % num_tracks]
        merged = rank_scores(
            fused.query[kept] // num_tracks,
            fused.key[kept],
            fused.score[kept],
            decimals=FUSED_DECIMALS,
        )
        return pack_ranking(merged, finds.names, num_rows)


class _Finds:
    """Flat finds of several searches: the row, search, key, rank, score and path of each."""

    def __init__(self, found: Sequence[FoundWindows]) -> None:
        sizes = [np.diff(item.offsets) for item in found]
        self.row: Ints = np.concatenate([np.repeat(np.arange(len(n)), n) for n in sizes])
        self.search: Ints = np.repeat(np.arange(len(found)), [len(item.scores) for item in found])
        self.names, keys = codes([item.unit_ids for item in found])
        self.key: Ints = np.concatenate(keys)
        self.rank: Ints = np.concatenate([item.ranks for item in found])
        self.score = np.concatenate([item.scores for item in found])
        self.paths = pa.concat_arrays([item.paths for item in found])

    def column(self, pairs: Sequence[tuple[str, str]], num_rows: int) -> pa.Array:
        """FOUND; `pairs` has the track and the channel of each search."""
        order = np.argsort(self.row, kind="stable")
        offsets = np.searchsorted(self.row[order], np.arange(num_rows + 1))
        search, paths = pa.array(self.search[order]), self.paths.take(pa.array(order))
        tracks, channels = (pa.array(names) for names in zip(*pairs, strict=True))
        columns = {
            "unit_id": self.names.take(pa.array(self.key[order])),
            "channel": channels.take(search),
            "track": tracks.take(search),
            "round": np.ones(len(order), np.int32),
            "rank": self.rank[order].astype(np.int32),
            "score": self.score[order],
            **{item.name: pc.struct_field(paths, item.name) for item in paths.type},
        }
        fields = list(FOUND.value_type)
        items = pa.StructArray.from_arrays(
            [pa.array(columns[item.name]) for item in fields], fields=fields
        )
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items).cast(FOUND)


def _check_disjoint(tracks: Sequence[Track]) -> None:
    """Raise ValueError that names a duplicate track or grade."""
    names = [track.name for track in tracks]
    grades = [grade for track in tracks for grade in track.grades or GRADES]
    for kind, all_of in (("name", names), ("grade", grades)):
        for each in all_of:
            if all_of.count(each) > 1:
                raise ValueError(f"tracks: {kind} {each!r} stands twice")
