"""The build job on Ray gives the same artifacts as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.config.compose import configure
from srrag.core.stage import Resources, Stage
from srrag.runner.ray.data import pools
from srrag.storage.store import Store
from tests.conftest import run_build
from tests.toys import Double

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


@pytest.mark.rounds  # test_three_nodes.py builds it on three nodes and compares every byte
def test_the_sample_built_on_ray_is_the_sample_built_here(
    sample_root: Path, tmp_path: Path
) -> None:
    summary = run_build(configure("build", ["profile=ray", "plan=graph", f"root={tmp_path}"]))
    here, there = Store(sample_root), Store(tmp_path)
    stages = here.read_pointer("default")["stages"]
    assert there.read_pointer("default")["stages"].keys() == stages.keys()
    assert summary["documents"] == 55
    for name, entry in stages.items():
        assert there.read_pointer("default")["stages"][name]["fingerprint"] == entry["fingerprint"]
        for part in entry.get("parts", []):
            left = here.read_part(name, entry["fingerprint"], part)
            right = there.read_part(name, entry["fingerprint"], part)
            if name == "vectors":
                left, right = (
                    left.select(["unit_id", "text_key"]),
                    right.select(["unit_id", "text_key"]),
                )
            assert left.equals(right), name
    again = run_build(configure("build", ["profile=ray", f"root={tmp_path}"]))
    assert all(again["reused"].values())


def test_neighbours_with_equal_resources_share_a_pool() -> None:
    small, large = Resources(cpus=0.5), Resources(cpus=1.0, workers=2)
    stages = [
        Stage(name, Double(), ("numbers",), resources)
        for name, resources in zip("abcd", (small, small, large, small), strict=True)
    ]
    assert [[stage.name for stage in pool] for pool in pools(stages)] == [["a", "b"], ["c"], ["d"]]
