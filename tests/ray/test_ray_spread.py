"""What is spread over Ray writes the very files of what is made here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from srrag.core.schema import TRIPLES
from srrag.core.step import Place
from srrag.graph.entities import MergeEntities
from srrag.index.dense import BuildDenseIndex
from srrag.index.opened import DenseIndex
from srrag.runner.ray.data import RayDataRunner
from tests.unit.graph.test_partition import rows_of
from tests.unit.index.tables import write
from tests.unit.index.test_dense_shards import clouds, files, parts_of

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def test_a_merge_of_more_than_a_bucket_goes_over_ray_and_is_the_same(tmp_path: Path) -> None:
    parts = [
        write(rows_of(100, seed=seed), TRIPLES, tmp_path / f"part-{seed}.parquet")
        for seed in range(3)
    ]
    inputs, calls = {"triples": parts}, []
    with RayDataRunner().spread() as spread:

        def counted(call, items):  # type: ignore[no-untyped-def]
            calls.append(len(items))
            return spread(call, items)

        for name, place in (("here", Place()), ("there", Place(spread=counted))):
            (tmp_path / name).mkdir()
            MergeEntities(bucket_facts=40).build(inputs, tmp_path / name, place)
        (tmp_path / "small").mkdir()
        MergeEntities().build(inputs, tmp_path / "small", Place(spread=counted))
    assert calls == [3, 2 * (300 // 40 + 1)]
    for file in ("entities.parquet", "edges.parquet", "sources.parquet"):
        written = {(tmp_path / name / file).read_bytes() for name in ("here", "there", "small")}
        assert len(written) == 1


def test_shards_are_made_over_ray_and_again_where_a_worker_dies(tmp_path: Path) -> None:
    """Six shards of short codes: the first attempt at one is killed once its index is written.

    That one is made twice, each of the others once.
    """
    inputs = parts_of(tmp_path / "p", clouds(1800), [100] * 18)
    build = BuildDenseIndex(flat_rows=600, shard_rows=300, pq_bytes=8)
    died, notes = tmp_path / "died", tmp_path / "notes"
    notes.mkdir()
    with RayDataRunner().spread() as spread:

        def once(call, items):  # type: ignore[no-untyped-def]
            def run(item: Any) -> Any:
                value = call(item)
                with (notes / item.path.stem).open("a") as note:
                    note.write("made ")
                if item.path.name == "shard-E-00002.faiss" and not died.exists():
                    died.touch()
                    os._exit(1)
                return value

            return spread(run, items)

        made = {}
        for name, place in (("here", Place()), ("there", Place(spread=once))):
            (tmp_path / name).mkdir()
            made[name] = build.build(inputs, tmp_path / name, place)
    assert died.exists()
    times = {note.name: len(note.read_text().split()) for note in notes.iterdir()}
    assert times.pop("shard-E-00002") == 2
    assert len(times) > 5 and set(times.values()) == {1}, "each other one, and the codes"
    assert made["here"] == made["there"]
    assert made["there"]["shards"] == 6
    assert files(tmp_path / "here") == files(tmp_path / "there")
    ((ids, _),) = DenseIndex(tmp_path / "there").search(clouds(1800)[:1], 5)
    assert len(ids) == 5


def test_what_a_call_finds_wrong_is_told_as_it_is_here(tmp_path: Path) -> None:
    inputs = parts_of(tmp_path / "p", clouds(600), [100] * 6)
    build = BuildDenseIndex(flat_rows=300, shard_rows=300, pq_bytes=7)
    with RayDataRunner().spread() as spread, pytest.raises(ValueError) as told:
        build.build(inputs, tmp_path, Place(spread=spread))
    assert str(told.value) == "pq_bytes: 7 does not divide the dimension, 32"
