"""The Ray Data runner on a real cluster: the same parts as the local one, whatever dies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import ray.cloudpickle
from ray.data import DataContext

import tests.toys
from srrag.core.step import Place
from srrag.runner.ray.data import RayDataRunner
from srrag.runner.ray.watch import StalledError
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store
from tests.toys import Double, number_parts, plan, values

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(autouse=True)
def restored_context() -> Iterator[None]:
    """The toy steps travel by value, and each test leaves Ray Data's settings as they were."""
    ray.cloudpickle.register_pickle_by_value(tests.toys)
    with DataContext.current(DataContext.get_current().copy()):
        yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules["tests.toys"])


def test_equals_the_local_runner(tmp_path: Path) -> None:
    sizes = [7, 1, 4, 9, 2, 5]
    chain = plan(Double(), Double(bad=16), Double())
    for name, runner in (("local", LocalRunner()), ("ray", RayDataRunner())):
        store = Store(tmp_path / name)
        parts = number_parts(store, sizes)
        runner.run(chain, store, parts, Place())
    for stage in ("s1", "s2", "s3"):
        local = values(tmp_path / "local", chain, stage, parts)
        assert local == values(tmp_path / "ray", chain, stage, parts)
    assert values(tmp_path / "ray", chain, "s3", parts) == [8 * n for n in range(28) if n != 8]


def test_only_missing_parts_are_done(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [2, 2, 2])
    chain = plan(Double())
    RayDataRunner().run(chain, store, parts[:2], Place())
    paths = [store.part_path("s1", chain.fingerprint("s1"), part) for part in parts[:2]]
    before = [path.stat().st_mtime_ns for path in paths]
    RayDataRunner().run(chain, store, parts, Place())
    assert [path.stat().st_mtime_ns for path in paths] == before
    RayDataRunner().run(chain, store, parts, Place())


def test_a_row_that_kills_workers_costs_itself_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [5, 9, 4])
    chain = plan(Double(deadly=7), Double())
    RayDataRunner().run(chain, store, parts, Place())
    assert values(tmp_path, chain, "s2", parts) == [4 * n for n in range(18) if n != 7]
    assert store.read_receipt("s1", chain.fingerprint("s1"), "p1").reasons == {"crashed": 1}


def test_too_few_logical_cpus_are_an_error_and_no_hang(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [1])
    with pytest.raises(ValueError, match=r"take 9 CPU; the cluster has 8"):
        RayDataRunner().run(plan(Double(), Double(), Double(), cpus=3), store, parts, Place())


def test_a_worker_that_stands_still_ends_the_run_which_goes_on_from_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [2, 2, 2])
    chain = plan(Double(frozen=3, gate=str(tmp_path / "gate")), Double())
    with pytest.raises(StalledError, match="to do"):
        RayDataRunner(stall_s=12).run(chain, store, parts, Place())
    (tmp_path / "gate").touch()
    RayDataRunner().run(chain, store, parts, Place())
    assert values(tmp_path, chain, "s2", parts) == [4 * n for n in range(6)]


def test_a_run_that_stands_still_ends_with_who_waits(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [1, 1])
    with pytest.raises(StalledError, match="s1 has 2 parts to do"):
        RayDataRunner(stall_s=8).run(plan(Double(pause_s=40)), store, parts, Place())
    whole = ray.data.range(3).map_batches(lambda batch: batch).take_all()
    assert len(whole) == 3, "a dataset of somebody else in this process goes on"
    assert ray.data.DataContext.get_current().custom_execution_callback_classes == []
