"""A sweep on Ray: as on one machine, whoever dies, and its engines at the same time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray.cloudpickle
from ray.data import DataContext

import tests.engines
import tests.unit.runner.sweeps
from srrag.core.step import Function, Place
from srrag.runner.ray.data import RayDataRunner
from tests.unit.runner.sweeps import Add, meeting, questions, ranked, sweep

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]
TEXTS = questions({str(n): "knee" * n for n in range(1, 131)})
MODULES = (tests.engines, tests.unit.runner.sweeps, sys.modules[__name__])


@dataclass(frozen=True, kw_only=True)
class DieOnce(Add):
    """Kills its worker the first time that it is run."""

    folder: str

    def open(self, at: Place) -> Function:
        add = super().open(at)

        def run(batch):  # type: ignore[no-untyped-def]
            mark = Path(self.folder, "died")
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return add(batch)

        return run


@pytest.fixture(autouse=True)
def restored_context() -> Iterator[None]:
    """The toy steps travel by value, and each test leaves Ray Data's settings as they were."""
    for module in MODULES:
        ray.cloudpickle.register_pickle_by_value(module)
    with DataContext.current(DataContext.get_current().copy()):
        yield
    for module in MODULES:
        ray.cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.rounds  # test_three_nodes.py takes a node from a sweep, test_ray_data.py kills workers
def test_a_killed_worker_costs_nothing_and_the_table_is_that_of_one_machine(
    tmp_path: Path,
) -> None:
    def pipelines(folder: Path) -> list:  # type: ignore[type-arg]
        shared = (Add(into="a", bad="knee" * 70), DieOnce(into="b", folder=str(folder)))
        return [ranked(*shared, Add(into="c")), ranked(*shared, answer=(Add(into="d"),))]

    (tmp_path / "died").touch()
    local = sweep(tmp_path / "local", *pipelines(tmp_path))
    local.run(TEXTS, Place())
    (tmp_path / "apart").mkdir()
    on_ray = sweep(tmp_path / "ray", *pipelines(tmp_path / "apart"), runner=RayDataRunner())
    on_ray.run(TEXTS, Place())
    assert (tmp_path / "apart" / "died").exists()
    for number in range(2):
        tables = [each.table(number, TEXTS).drop_columns("trace") for each in (local, on_ray)]
        assert tables[0].equals(tables[1])
        assert tables[0]["reject"].null_count == 129


def test_engines_of_several_configurations_work_at_the_same_time(tmp_path: Path) -> None:
    made = sweep(tmp_path / "root", *meeting(tmp_path / "met"), runner=RayDataRunner())
    made.run(TEXTS, Place())
    for number in range(2):
        assert made.table(number, TEXTS)["reject"].null_count == 130
