"""Merging over Ray writes the very files of merging here."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.organize.entities import MergeEntities
from srrag.runner.ray_data import RayDataRunner
from srrag.schema import TRIPLES
from srrag.step import Place
from tests.unit.index.tables import write
from tests.unit.organize.test_partition import rows_of

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
