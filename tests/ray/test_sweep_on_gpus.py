"""A sweep over several GPUs: configurations at the same time, each worker on a GPU of its own.

The GPUs are logical: what Ray hands out is checked, and nothing is computed on one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
import ray
import ray.cloudpickle
from ray.data import DataContext

import tests.unit.runner.sweeps
from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.step import Function, Place
from srrag.runner.pipeline_run import Sweep
from tests.unit.runner.sweeps import Add, questions, ranked, sweep

pytestmark = pytest.mark.ray
PATIENCE_S = 300.0
NUM_QUESTIONS = 128
"""Two parts."""


@pytest.fixture
def eight_gpus() -> Iterator[None]:
    """A node as the profile a100x8 has them, but for the silicon; the toy steps travel by value."""
    if ray.is_initialized():
        ray.shutdown()
    options = {"include_dashboard": False, "log_to_driver": False}
    ray.init(address="local", num_cpus=64, num_gpus=8, object_store_memory=80 * 1024**2, **options)
    modules = (tests.unit.runner.sweeps, sys.modules[__name__])
    for module in modules:
        ray.cloudpickle.register_pickle_by_value(module)
    with DataContext.current(DataContext.get_current().copy()):
        yield
    for module in modules:
        ray.cloudpickle.unregister_pickle_by_value(module)
    ray.shutdown()


@dataclass(frozen=True, kw_only=True)
class Meet(Add):
    """Notes its GPU; `waits` for another configuration to have begun, on the first part alone."""

    folder: str
    waits: str = ""

    def open(self, at: Place) -> Function:
        add, folder = super().open(at), Path(self.folder)

        def run(batch: pa.Table) -> pa.Table:
            first = "knee" in batch["text"].to_pylist()
            (gpu,) = ray.get_gpu_ids()
            (folder / f"{self.into}-{'first' if first else 'second'}-{gpu}").touch()
            deadline = time.monotonic() + PATIENCE_S
            while first and self.waits and not list(folder.glob(f"{self.waits}-*")):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.waits} does not begin before {self.into} has ended")
                time.sleep(0.02)
            return add(batch)

        return run


def test_configurations_work_at_the_same_time_each_on_its_gpu(
    tmp_path: Path, eight_gpus: None
) -> None:
    met = tmp_path / "met"
    met.mkdir()
    one, other = (
        Meet(into="one", folder=str(met), waits="other"),
        Meet(into="other", folder=str(met)),
    )
    taken = ["profile.resources.ranking.gpus=1", "profile.resources.ranking.workers=2"]
    config = configure("sweep", [f"root={tmp_path}", "bench=sample", "profile=a100x8", *taken])
    plain = sweep(tmp_path / "root", ranked(Add(into="a"), one), ranked(Add(into="a"), other))
    made = Sweep(
        plain.store, "default", plain.pipelines, factory.runner(config),
        partial(factory.resources, config),
    )  # fmt: skip
    texts = questions({str(n): "knee" * n for n in range(1, NUM_QUESTIONS + 1)})
    made.run(texts, Place())
    for number in range(2):
        assert made.table(number, texts)["reject"].null_count == NUM_QUESTIONS
    seen = [tuple(path.name.split("-")) for path in met.iterdir()]
    assert {(name, part) for name, part, _ in seen} == {
        (name, part) for name in ("one", "other") for part in ("first", "second")
    }
    gpus = {part: {gpu for _, each, gpu in seen if each == part} for part in ("first", "second")}
    assert all(len(each) == 1 for each in gpus.values()), "a part stays with its worker"
    assert gpus["first"] != gpus["second"], "and each worker has a GPU of its own"
