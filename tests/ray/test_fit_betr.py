"""BETR on Ray: the same parameters on any number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from srrag.lab.train.betr.fit import BetrSettings, BetrTask, run_plain
from srrag.lab.train.betr.pair_file import read_pairs
from srrag.runner.ray.nodes import over_ray
from srrag.runner.ray.train import train_on_ray
from tests.simulated_pairs import TABLE_1, pairs_table, simulate_pairs

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "pairs.parquet"
    pq.write_table(pairs_table(simulate_pairs(TABLE_1, num_queries=101)), path)
    file = read_pairs(path)
    settings = BetrSettings(objective="paper")
    return BetrTask(
        pairs=str(path), fingerprint=file.fingerprint, settings=settings, num_queries=101,
        share=0.2, seed=0,
    ).plain()  # fmt: skip


def test_in_this_process(plain: dict[str, Any], tmp_path: Path) -> None:
    assert train_on_ray(run_plain, plain, workers=0, folder=tmp_path, name="r") == run_plain(plain)


def test_candidates_are_tasks_and_one_that_fails_says_why(plain: dict[str, Any]) -> None:
    candidates = [{**plain, "settings": {**plain["settings"], "tau": tau}} for tau in (0.1, 1.0)]
    found = over_ray(run_plain, candidates)
    assert found == [run_plain(candidate) for candidate in candidates]
    Path(plain["pairs"]).unlink()
    with pytest.raises(ValueError, match="there is no such file"):
        over_ray(run_plain, candidates)
