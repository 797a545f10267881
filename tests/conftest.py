"""Shared parts: the real data, a built sample, a Ray cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Ray starts its workers at niceness 15: on a busy machine its tests would wait for ever.
os.environ.setdefault("RAY_worker_niceness", "0")

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real test data; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"the real test data is not at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def sample_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample corpus, built once in this process."""
    from srrag.config.compose import configure

    root = tmp_path_factory.mktemp("sample")
    run_build(configure("build", [f"root={root}"]))
    return root


def run_build(config: dict[str, Any]) -> dict[str, Any]:
    """Run the build job in this process."""
    import jobs.build

    return jobs.build.run({**config, "command": "test"})


@pytest.fixture(scope="module")
def ray_cluster() -> None:
    """A small Ray, kept up between modules: more logical CPUs than cores, as stages take shares.

    A module that needs a cluster of its own shuts it down, and the next one starts it again.
    """
    import ray

    if not ray.is_initialized():
        ray.init(
            address="local",
            num_cpus=8,
            object_store_memory=80 * 1024**2,
            include_dashboard=False,
            log_to_driver=False,
        )
