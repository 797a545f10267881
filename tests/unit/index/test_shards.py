"""Indexes in shards answer as one of one shard does, and an update writes what it touches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.schema import UNITS
from srrag.core.step import Build, Place, PreviousVersion
from srrag.core.units import Units
from srrag.index.dense import BuildDenseIndex
from srrag.index.opened import DenseIndex
from srrag.index.shard_plan import regroup
from srrag.index.sparse import BuildSparseIndex, SparseIndex
from srrag.index.tokens import BuildTokenIndex, TokenIndex
from srrag.index.units import BuildUnits
from srrag.storage.atomic_write import write_parquet
from srrag.storage.mapped_table import IndexShard, read_shards
from tests.unit.index.tables import documents, hashed, row, vectors, write

WORDS = ("knee", "hip", "pain", "gait", "load", "rest", "sprain", "tear")
PART_ROWS = 20


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, list[Path]]:
    """Windows, their documents and vectors in six parts of 20 rows."""
    draw = np.random.default_rng(3)
    inputs: dict[str, list[Path]] = {"windows": [], "documents": [], "vectors": []}
    for number in range(6):
        for name, paths in inputs.items():
            (tmp_path / name).mkdir(exist_ok=True)
            paths.append(tmp_path / name / f"part-{number}.parquet")
        ids = [hashed((number, n)) for n in range(PART_ROWS)]
        rows = [
            row(UNITS, unit_id=key, doc_id=hashed(key), grade=str(draw.choice(list("ABE"))),
                text=" ".join(draw.choice(WORDS, size=draw.integers(2, 12))))
            for key in ids
        ]  # fmt: skip
        write(rows, UNITS, inputs["windows"][-1])
        titles = [" ".join(draw.choice(WORDS, size=3)) for _ in ids]
        told = [{"doc_id": hashed(key), "title": t} for key, t in zip(ids, titles, strict=True)]
        documents(told, inputs["documents"][-1])
        tokens = [draw.integers(-128, 128, (draw.integers(0, 4), 3)) for _ in ids]
        vectors(ids, draw.standard_normal((PART_ROWS, 3)), inputs["vectors"][-1], tokens)
    return inputs


def built(
    build: Build, parts: dict[str, list[Path]], out: Path, former: PreviousVersion | None = None
) -> Path:
    out.mkdir()
    if former is None:
        build.build(parts, out, Place())
    else:
        build.update(parts, out, Place(), former)
    return out


def some(parts: dict[str, list[Path]], numbers: Sequence[int]) -> dict[str, list[Path]]:
    return {name: [paths[number] for number in numbers] for name, paths in parts.items()}


def before(folder: Path, parts: dict[str, list[Path]]) -> PreviousVersion:
    return PreviousVersion(folder, frozenset(path for paths in parts.values() for path in paths))


def asked(build: Build, folder: Path, ids: Sequence[str]) -> list[Any]:
    """What an index answers, as plain values."""
    if isinstance(build, BuildSparseIndex):
        index = SparseIndex(folder)
        questions = ["knee pain", "gait hip tear", "sprain"]
        found = [*index.search(questions, 200), *index.search(questions, 9, ("A", "B"))]
        rarities = index.rarities(WORDS, 1.0).tolist()
        return [len(index), rarities, *((i.to_pylist(), s.tolist()) for i, s in found)]
    if isinstance(build, BuildTokenIndex):
        tokens = TokenIndex(folder)
        return [*(each.tolist() for each in tokens.take(ids)), tokens.take_vectors(ids).tolist()]
    units = Units(folder)
    studies = units.window_studies[units.rows(ids)]
    same = (studies[:, None] == studies[None, :]).tolist()
    return [len(units), units.take_evidence(ids).to_pylist(), same]


BUILDS = {
    "sparse": BuildSparseIndex(titles="documents"),
    "tokens": BuildTokenIndex(),
    "units": BuildUnits(),
}


def in_shards(build: Any, rows: int) -> Any:
    return type(build)(**{**vars(build), "shard_rows": rows})


@pytest.mark.parametrize("name", BUILDS)
def test_shards_answer_as_one(name: str, parts: dict[str, list[Path]], tmp_path: Path) -> None:
    build = BUILDS[name]
    ids = [hashed((p, n)) for n in (3, 19, 0) for p in (5, 0, 2, 5)]
    whole = asked(build, built(build, parts, tmp_path / "one"), ids)
    shards = built(in_shards(build, 40), parts, tmp_path / "three")
    assert [shard.number for shard in read_shards(shards)] == [0, 1, 2]
    assert asked(build, shards, ids) == whole


@pytest.mark.parametrize("name", BUILDS)
def test_an_update_links_the_shards_that_stand(
    name: str, parts: dict[str, list[Path]], tmp_path: Path
) -> None:
    """Part 2 goes, part 5 comes: the shard of parts 0 and 1 stays, that of 2 and 3 does not."""
    build = in_shards(BUILDS[name], 40)
    first = some(parts, (0, 1, 2, 3, 4))
    now = some(parts, (0, 1, 3, 4, 5))
    old = built(build, first, tmp_path / "old")
    kept = before(old, some(parts, (0, 1, 3, 4)))
    new = built(build, now, tmp_path / "new", kept)
    held = {path.stat().st_ino for path in old.rglob("*") if path.is_file()}
    linked = {p.name for p in new.rglob("*") if p.is_file() and p.stat().st_ino in held}
    assert any("-00000" in each for each in linked)
    assert not any("-00001" in each for each in linked)
    assert all(shard.number != 1 for shard in read_shards(new))
    gone = hashed((2, 0)).encode()
    assert not any(gone in path.read_bytes() for path in new.rglob("*") if path.is_file())
    ids = [hashed((p, n)) for p in (0, 1, 3, 4, 5) for n in (0, 7)]
    assert asked(build, new, ids) == asked(build, built(build, now, tmp_path / "once"), ids)


def test_an_id_in_two_shards_is_refused(parts: dict[str, list[Path]], tmp_path: Path) -> None:
    twice = tmp_path / "vectors" / "part-9.parquet"
    vectors([hashed((0, 0))], np.ones((1, 3)), twice)
    inputs = {"vectors": [*parts["vectors"], twice]}
    with pytest.raises(ValueError, match=f"{hashed((0, 0))[:16]} occurs twice"):
        built(BuildTokenIndex(shard_rows=40), inputs, tmp_path / "i")


@settings(max_examples=60, deadline=None)
@given(
    came=st.lists(st.integers(0, 60), max_size=30),
    shard_rows=st.integers(1, 100),
    lost=st.sets(st.integers(0, 29), max_size=4),
)
def test_every_part_is_in_one_shard(came: list[int], shard_rows: int, lost: set[int]) -> None:
    """Whatever comes, one by one, and is lost in the end; few shards stay small."""
    shards: list[IndexShard] = []
    rows: dict[str, int] = {}
    for number, size in enumerate(came):
        kept = list(rows)
        rows[f"p{number}"] = size
        stand, new = regroup(rows, shards, kept, shard_rows)
        shards = [*stand, *new]
        assert sorted(p for shard in shards for p in shard.parts) == sorted(rows)
        assert all(sum(rows[p] for p in shard.parts) == shard.rows for shard in shards)
        assert len({shard.number for shard in shards}) == len(shards)
    small = [shard.rows for shard in shards if 0 < shard.rows < shard_rows]
    assert len(small) <= 2 + 2 * np.log2(1 + sum(small))
    left = {name: size for name, size in rows.items() if int(name[1:]) not in lost}
    stand, new = regroup(left, shards, list(left), shard_rows)
    assert sorted(p for shard in (*stand, *new) for p in shard.parts) == sorted(left)
    assert all(shard in shards for shard in stand)


def test_one_percent_more_writes_one_percent() -> None:
    rows = {f"p{n}": 500 for n in range(1000)}
    _, first = regroup(rows, [], (), 100_000)
    more = rows | {f"q{n}": 500 for n in range(10)}
    stand, new = regroup(more, first, list(rows), 100_000)
    assert (len(stand), [shard.rows for shard in new]) == (5, [5000])


def nearest(folder: Path, grades: Sequence[str] = ()) -> list[Any]:
    queries = np.random.default_rng(8).standard_normal((4, 3)).astype(np.float32)
    found = DenseIndex(folder).search(queries, 30, grades)
    return [(ids.to_pylist(), np.round(scores, 5).tolist()) for ids, scores in found]


def test_an_update_of_the_dense_index_links_the_shards_that_stand(
    parts: dict[str, list[Path]], tmp_path: Path
) -> None:
    build = BuildDenseIndex(shard_rows=15)
    first, now = some(parts, (0, 1, 2, 3, 4)), some(parts, (0, 1, 3, 4, 5))
    old = built(build, first, tmp_path / "old")
    kept = before(old, some(parts, (0, 1, 3, 4)))
    new = built(build, now, tmp_path / "new", kept)
    once = built(build, now, tmp_path / "once")
    assert nearest(new) == nearest(once)
    assert nearest(new, ("A", "B")) == nearest(once, ("A", "B"))
    linked = [p for p in new.glob("*.faiss") if (old / p.name).exists()]
    assert linked and all(path.samefile(old / path.name) for path in linked)
    told = json.loads((new / "index.json").read_text())["shards"]
    assert not any("part-2.parquet" in shard["parts"] for shard in told.values())
    assert sum(shard["rows"] for shard in told.values()) == 5 * PART_ROWS


def regraded(
    parts: dict[str, list[Path]], folder: Path, changed: Sequence[int]
) -> dict[str, list[Path]]:
    """The same windows, with no grade E any more in some parts."""
    folder.mkdir()
    paths = list(parts["windows"])
    for number in changed:
        table = pq.read_table(paths[number])
        grades = pc.replace_substring(table["grade"], "E", "C")
        table = table.set_column(table.column_names.index("grade"), "grade", grades)
        paths[number] = folder / paths[number].name
        write_parquet(table, paths[number])
    return {**parts, "windows": paths}


@pytest.mark.parametrize("flat_rows", [10, 1000])
@pytest.mark.parametrize(("numbers", "changed"), [((0,), (0,)), ((0, 1, 2), (1,))])
def test_a_grade_that_leaves_a_part_leaves_its_shard(
    numbers: Sequence[int],
    changed: Sequence[int],
    flat_rows: int,
    parts: dict[str, list[Path]],
    tmp_path: Path,
) -> None:
    """Documents graded anew change the windows of a part and not its name."""
    build = BuildDenseIndex(shard_rows=15, flat_rows=flat_rows, probes=1000)
    first = some(parts, numbers)
    old = built(build, first, tmp_path / "old")
    now = regraded(first, tmp_path / "regraded", changed)
    kept = frozenset([*now["vectors"], *({*now["windows"]} & {*first["windows"]})])
    new = built(build, now, tmp_path / "new", PreviousVersion(old, kept))
    once = built(build, now, tmp_path / "once")
    assert nearest(new) == nearest(once)
    assert nearest(new, ("C", "E")) == nearest(once, ("C", "E"))
    told = json.loads((new / "index.json").read_text())["shards"]
    assert all(shard["rows"] for shard in told.values())
    assert sum(shard["rows"] for shard in told.values()) == len(numbers) * PART_ROWS


def test_lists_are_kept_until_a_part_is_lost_or_the_grade_doubles(
    parts: dict[str, list[Path]], tmp_path: Path
) -> None:
    build = BuildDenseIndex(flat_rows=10, shard_rows=15, probes=1000)
    old = built(build, some(parts, (0, 1, 2)), tmp_path / "old")
    codecs = sorted(path.name for path in old.glob("codec-*"))
    assert codecs

    def update(numbers: Sequence[int], name: str) -> Path:
        stand = some(parts, [n for n in numbers if n < 3])
        found = built(build, some(parts, numbers), tmp_path / name, before(old, stand))
        once = built(build, some(parts, numbers), tmp_path / f"{name} once")
        assert nearest(found) == nearest(once)  # all lists are probed
        return found

    def kept(folder: Path) -> list[bool]:
        return [(folder / name).samefile(old / name) for name in codecs]

    assert all(kept(update((0, 1, 2, 3), "more")))
    assert not any(kept(update((0, 1, 3), "lost")))
    doubled = update((0, 1, 2, 3, 4, 5), "same as twice")
    assert json.loads((doubled / "index.json").read_text())["trained_on"]
