"""Dense index: FAISS, exact up to a size, inverted lists above it; one partition for each grade.

The order and the sizes of the parts alone determine the shards, which are then made one by one or
on the workers of the place. Vectors never travel between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from srrag.grades import GRADES
from srrag.index.dense_shards import (
    Codec,
    Draft,
    Part,
    Rows,
    ShardSettings,
    count,
    cut,
    train,
    write,
)
from srrag.index.titles import TITLE_WEIGHT
from srrag.step import Build, ParallelMap, Place
from srrag.storage.atomic_write import commit_json

_COUNTED_PARTS = 1000
_LEAST_FLAT_ROWS = 256
_LISTS_PER_ROOT = 4


@dataclass(frozen=True, kw_only=True)
class BuildDenseIndex(Build):
    """Inner-product search over L2-normalised vectors, with one partition for each grade.

    A partition of up to `flat_rows` windows is searched exactly. In a larger one, each shard has
    4·√n inverted lists, of which a search probes `probes`. With `pq_bytes` the lists hold codes of
    that many bytes instead of vectors, and the `rescored`·k best by code are ranked by their
    vectors, read from disk; `rescored` 0 ranks by codes alone. Lists and codes are trained once a
    partition, so searching its shards equals searching one index. The figures report recall@100
    against exact search, measured on 200 vectors of each shard, as the mean over all windows. A
    shard ends with the part that brings it to `shard_rows`, which bounds the memory of a task.
    Raises ValueError for a vector without a window.

    `titles` names the stage of the titles' vectors, "" for none: `title_weight` times that of its
    document's title is added to a window's vector, which then has unit length again.
    """

    version: ClassVar[int] = 3

    vectors: str = "vectors"
    windows: str = "windows"
    titles: str = ""
    title_weight: float = TITLE_WEIGHT
    flat_rows: int = 200_000
    probes: int = 64
    pq_bytes: int | None = None
    rescored: int = 10
    shard_rows: int = 500_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for impossible codes."""
        if self.pq_bytes is not None and self.pq_bytes < 1:
            raise ValueError(f"pq_bytes: {self.pq_bytes}; it is 1 or more, or none")
        if self.pq_bytes is not None and self.flat_rows < _LEAST_FLAT_ROWS:
            raise ValueError(f"flat_rows: {_LEAST_FLAT_ROWS} or more, to train codes of 8 bits on")
        if self.rescored < 0:
            raise ValueError(f"rescored: {self.rescored}; it is 0 or more")

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `shard-<grade>-*.faiss` with the unit ids beside them, and `index.json`.

        Up to one shard is made in this process, more on the workers of the place.
        """
        codecs, drafts = self.plan(inputs, out, at)
        total = sum(len(draft.rows) for draft in drafts)
        if total == 0:
            raise ValueError("there is no window to index")
        each = self._spread(total, at) or _here
        each(train, codecs)
        made = each(write, drafts)
        for left in out.glob(".*"):  # leftovers of a worker that died
            left.unlink()
        commit_json(out / "index.json", {"probes": self.probes, "rescored": self.rescored})
        sizes = [shard.rows for shard in made]
        return {
            "windows": total,
            "exact": sum(len(draft.rows) for draft in drafts if draft.codec is None),
            "shards": len(made),
            "recall_at_100": round(float(np.average([s.recall for s in made], weights=sizes)), 4),
            "bytes_per_vector": round(sum(shard.num_bytes for shard in made) / total, 1),
            "made_on": " and ".join(sorted({shard.device for shard in made})),
        }

    def plan(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> tuple[list[Codec], list[Draft]]:
        """Plan the codecs and the shards from the order and the sizes of the parts."""
        grades = _rows(self._parts(inputs), at.spread)
        alone = self._spread(sum(map(len, grades)), at) is None
        settings = ShardSettings(
            pq_bytes=self.pq_bytes,
            probes=self.probes,
            rescored=self.rescored,
            seed=self.seed,
            threads=max(1, at.threads) if alone else 1,
            device=at.device,
        )
        codecs, drafts = [], []
        for rows in grades:
            shards, codec = cut(rows, self.shard_rows), None
            if len(rows) > self.flat_rows:
                codec = out / f"codec-{rows.grade}.faiss"
                lists = int(_LISTS_PER_ROOT * np.sqrt(max(map(len, shards))))
                codecs.append(Codec(codec, rows, min(lists, len(rows)), settings))
            for number, shard in enumerate(shards):
                path = out / f"shard-{rows.grade}-{number:05d}.faiss"
                drafts.append(Draft(path, shard, codec, settings))
        return codecs, drafts

    def _parts(self, inputs: Mapping[str, Sequence[Path]]) -> list[Part]:
        """The parts of vectors, each with those of its windows and titles."""
        names = [self.vectors, self.windows, *([self.titles] if self.titles else [])]
        if len({tuple(path.name for path in inputs[name]) for name in names}) > 1:
            said = " and ".join(names)
            raise ValueError(f"{said} are not parts of the same names; run the build again")
        pairs = zip(inputs[self.vectors], inputs[self.windows], strict=True)
        titles = inputs[self.titles] if self.titles else [None] * len(inputs[self.vectors])
        parts = zip(pairs, titles, strict=True)
        weight = self.title_weight
        return [Part(*pair, titles=title, title_weight=weight) for pair, title in parts]

    def _spread(self, total: int, at: Place) -> ParallelMap | None:
        return at.spread if total > self.shard_rows else None


def _rows(parts: Sequence[Part], spread: ParallelMap | None) -> list[Rows]:
    """Return the rows of each non-empty grade, in the order of the parts."""
    starts = range(0, len(parts), _COUNTED_PARTS)
    lanes = [parts[start : start + _COUNTED_PARTS] for start in starts]
    each = spread if spread and len(lanes) > 1 else _here
    counts = np.concatenate([np.zeros((0, len(GRADES)), np.int64), *each(count, lanes)])
    grades = []
    for grade, column in zip(GRADES, counts.T.tolist(), strict=True):
        sized = zip(parts, column, strict=True)
        grades.append(Rows(grade, tuple(replace(part, rows=rows) for part, rows in sized if rows)))
    return [rows for rows in grades if len(rows)]


def _here(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [call(item) for item in items]
