"""A sweep on Ray: its engines work at the same time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray.cloudpickle
from ray.data import DataContext

import tests.engines
import tests.unit.runner.sweeps
from srrag.core.step import Place
from srrag.runner.ray.data import RayDataRunner
from tests.unit.runner.sweeps import meeting, questions, sweep

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]
TEXTS = questions({str(n): "knee" * n for n in range(1, 131)})
MODULES = (tests.engines, tests.unit.runner.sweeps, sys.modules[__name__])


@pytest.fixture(autouse=True)
def restored_context() -> Iterator[None]:
    """The toy steps travel by value, and each test leaves Ray Data's settings as they were."""
    for module in MODULES:
        ray.cloudpickle.register_pickle_by_value(module)
    with DataContext.current(DataContext.get_current().copy()):
        yield
    for module in MODULES:
        ray.cloudpickle.unregister_pickle_by_value(module)


def test_engines_of_several_configurations_work_at_the_same_time(tmp_path: Path) -> None:
    made = sweep(tmp_path / "root", *meeting(tmp_path / "met"), runner=RayDataRunner())
    made.run(TEXTS, Place())
    for number in range(2):
        assert made.table(number, TEXTS)["reject"].null_count == 130
