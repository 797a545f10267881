"""Dense index: FAISS, exact up to a size, inverted lists above it; one partition for each grade.

The order and the sizes of the parts alone determine the shards, which are then made one by one or
on the workers of the place. Vectors never travel between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from srrag.core.standing import GRADES
from srrag.core.step import Build, ParallelMap, Place, PreviousVersion
from srrag.index.dense_shards import (
    Codec,
    Draft,
    Made,
    Part,
    Rows,
    ShardSettings,
    count,
    grade_of,
    shard_name,
    train,
    write,
)
from srrag.index.shard_plan import cut, regroup, unchanged
from srrag.index.titles import TITLE_WEIGHT
from srrag.storage.atomic_write import commit_json, link_or_copy, read_json
from srrag.storage.mapped_table import IndexShard

_COUNTED_PARTS = 1000
_LEAST_FLAT_ROWS = 256
_LISTS_PER_ROOT = 4
_GROWS = 2


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

    version: ClassVar[int] = 4
    remembers: ClassVar[bool] = True
    """An update reuses the lists and codes of the previous version."""

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
        return self._write(codecs, drafts, {}, out, at)

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Link the shards whose parts still exist, and write the others.

        A grade is written whole if it comes to need lists, or no longer needs them. So is a grade
        with lists that lost a part (the lists may come from its vectors), or that doubled since the
        lists were trained.
        """
        told = read_json(former.folder / "index.json")
        if "shards" not in told:
            return self.build(inputs, out, at)
        parts = {part.vectors.name: part for part in self._parts(inputs)}
        kept = {n for n, p in parts.items() if unchanged(former, p.vectors, p.windows, p.titles)}
        made = {name: Made.of(shard) for name, shard in told["shards"].items()}
        grades = self._counted(list(parts.values()), kept, made, at)
        settings = self._settings(at, sum(map(len, grades)))
        codecs: list[Codec] = []
        drafts: list[Draft] = []
        standing: dict[str, Made] = {}
        for rows in grades:
            own = {name: shard for name, shard in made.items() if grade_of(name) == rows.grade}
            plan = self._continued(rows, own, kept, told["trained_on"].get(rows.grade), settings)
            if plan is None:
                more, new = self._planned(rows, out, settings)
                codecs, drafts = [*codecs, *more], [*drafts, *new]
                continue
            stand, shards = plan
            codec = out / f"codec-{rows.grade}.faiss"
            if (before := former.folder / codec.name).exists():
                link_or_copy(before, codec)
            for name in stand:
                standing[name] = own[name]
                for path in former.folder.glob(f"{name}.*"):
                    link_or_copy(path, out / path.name)
            known = codec if codec.exists() else None
            drafts += [Draft(out / f"{name}.faiss", s, known, settings) for name, s in shards]
        grown = {g: n for g, n in told["trained_on"].items() if (out / f"codec-{g}.faiss").exists()}
        return self._write(codecs, drafts, standing, out, at, grown)

    def _write(
        self,
        codecs: Sequence[Codec],
        drafts: Sequence[Draft],
        standing: Mapping[str, Made],
        out: Path,
        at: Place,
        trained_on: Mapping[str, int] | None = None,
    ) -> dict[str, float | int | str]:
        """Train, write the shards beside those that stand, and the index's record."""
        new = sum(len(draft.rows) for draft in drafts)
        total = new + sum(shard.rows for shard in standing.values())
        if total == 0:
            raise ValueError("there is no window to index")
        each = self._spread(new, at) or _here
        each(train, codecs)
        written = zip((draft.path.stem for draft in drafts), each(write, drafts), strict=True)
        made = {**standing, **dict(written)}
        for left in out.glob(".*"):  # leftovers of a worker that died
            left.unlink()
        trained = {**(trained_on or {}), **{codec.rows.grade: len(codec.rows) for codec in codecs}}
        record = {
            "probes": self.probes, "rescored": self.rescored, "trained_on": trained,
            "shards": {name: asdict(made[name]) for name in sorted(made)},
        }  # fmt: skip
        commit_json(out / "index.json", record)
        sizes = [shard.rows for shard in made.values()]
        recalls = [shard.recall for shard in made.values()]
        listed = sum(rows for name, rows in zip(made, sizes, strict=True)
                     if grade_of(name) in trained)  # fmt: skip
        return {
            "windows": total,
            "exact": total - listed,
            "shards": len(made),
            "recall_at_100": round(float(np.average(recalls, weights=sizes)), 4),
            "bytes_per_vector": round(sum(s.num_bytes for s in made.values()) / total, 1),
            "made_on": " and ".join(sorted({shard.device for shard in made.values()})),
        }

    def plan(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> tuple[list[Codec], list[Draft]]:
        """Plan the codecs and the shards from the order and the sizes of the parts."""
        grades = _rows(self._parts(inputs), at.spread)
        settings = self._settings(at, sum(map(len, grades)))
        codecs: list[Codec] = []
        drafts: list[Draft] = []
        for rows in grades:
            more, new = self._planned(rows, out, settings)
            codecs, drafts = [*codecs, *more], [*drafts, *new]
        return codecs, drafts

    def _settings(self, at: Place, total: int) -> ShardSettings:
        return ShardSettings(
            pq_bytes=self.pq_bytes,
            probes=self.probes,
            rescored=self.rescored,
            seed=self.seed,
            threads=max(1, at.threads) if self._spread(total, at) is None else 1,
            device=at.device,
        )

    def _planned(
        self, rows: Rows, out: Path, settings: ShardSettings
    ) -> tuple[list[Codec], list[Draft]]:
        """The codec of a grade, if it is large, and its shards."""
        groups = cut(rows.parts, lambda part: part.rows, self.shard_rows)
        shards, codecs = [Rows(rows.grade, tuple(parts)) for parts in groups], []
        if len(rows) > self.flat_rows:
            lists = int(_LISTS_PER_ROOT * np.sqrt(max(map(len, shards))))
            path = out / f"codec-{rows.grade}.faiss"
            codecs.append(Codec(path, rows, min(lists, len(rows)), settings))
        codec = codecs[0].path if codecs else None
        return codecs, [
            Draft(out / f"{shard_name(rows.grade, number)}.faiss", shard, codec, settings)
            for number, shard in enumerate(shards)
        ]

    def _continued(
        self,
        rows: Rows,
        made: Mapping[str, Made],
        kept: Collection[str],
        trained_on: int | None,
        settings: ShardSettings,
    ) -> tuple[list[str], list[tuple[str, Rows]]] | None:
        """The shards of a grade to keep, and those to write; None to write the whole grade."""
        lost = any(not set(kept).issuperset(shard.parts) for shard in made.values())
        if (len(rows) > self.flat_rows) != (trained_on is not None) or settings.device != "cpu":
            return None
        if trained_on is not None and (lost or len(rows) > _GROWS * trained_on):
            return None
        former = [
            IndexShard(int(name.rpartition("-")[2]), shard.parts, shard.rows)
            for name, shard in made.items()
        ]
        parts = {part.vectors.name: part for part in rows.parts}
        sizes = {name: part.rows for name, part in parts.items()}
        stand, new = regroup(sizes, former, kept, self.shard_rows)
        return [shard_name(rows.grade, shard.number) for shard in stand], [
            (shard_name(rows.grade, s.number), Rows(rows.grade, tuple(parts[p] for p in s.parts)))
            for s in new
        ]

    def _counted(
        self, parts: Sequence[Part], kept: Collection[str], made: Mapping[str, Made], at: Place
    ) -> list[Rows]:
        """The rows of each grade; kept shards know those of their parts."""
        known: dict[str, dict[str, int]] = {}
        for name, shard in made.items():
            sizes = zip(shard.parts, shard.part_rows, strict=True)
            # A part that was graded anew may have lost a grade, which is then not counted.
            own = {part: rows for part, rows in sizes if part in kept}
            known.setdefault(grade_of(name), {}).update(own)
        came = _rows([part for part in parts if part.vectors.name not in kept], at.spread)
        for rows in came:
            own = {part.vectors.name: part.rows for part in rows.parts}
            known.setdefault(rows.grade, {}).update(own)
        standing = {part.vectors.name for part in parts}
        found = []
        for grade in GRADES:
            own = {n: rows for n, rows in known.get(grade, {}).items() if n in standing}
            held = (replace(part, rows=own[part.vectors.name]) for part in parts
                    if part.vectors.name in own)  # fmt: skip
            found.append(Rows(grade, tuple(held)))
        return [rows for rows in found if len(rows)]

    def _parts(self, inputs: Mapping[str, Sequence[Path]]) -> list[Part]:
        return paired_parts(inputs, self.vectors, self.windows, self.titles, self.title_weight)

    def _spread(self, total: int, at: Place) -> ParallelMap | None:
        return at.spread if total > self.shard_rows else None


def paired_parts(
    inputs: Mapping[str, Sequence[Path]], vectors: str, windows: str, titles: str, weight: float
) -> list[Part]:
    """The parts of vectors, each with those of its windows and, unless "", of its titles."""
    names = [vectors, windows, *([titles] if titles else [])]
    if len({tuple(path.name for path in inputs[name]) for name in names}) > 1:
        said = " and ".join(names)
        raise ValueError(f"{said} are not parts of the same names; run the build again")
    pairs = zip(inputs[vectors], inputs[windows], strict=True)
    named = inputs[titles] if titles else [None] * len(inputs[vectors])
    parts = zip(pairs, named, strict=True)
    return [Part(*pair, titles=title, title_weight=weight) for pair, title in parts]


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
