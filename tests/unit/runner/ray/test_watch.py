from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import ray

from srrag.runner.part import Attempt, note_name
from srrag.runner.ray.watch import StalledError, Watch
from srrag.storage.store import Store
from tests.toys import Double, plan

CHAIN = plan(Double())
FINGERPRINT = CHAIN.fingerprint("s1")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that a watch sees, and a cluster with a free processor."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 1.0})
    return now


def stand(store: Store, *parts: str) -> None:
    for part in parts:
        store.write_part("s1", FINGERPRINT, part, Double.writes.empty_table())


def test_parts_of_other_runs_in_the_same_folder_are_not_counted(
    tmp_path: Path, clock: list[float]
) -> None:
    store = Store(tmp_path)
    stand(store, *(f"old{n}" for n in range(6)))
    parts = [f"new{n}" for n in range(4)]
    watch = Watch(CHAIN, store, CHAIN.stages, [*parts, parts[0]], stall_s=100)
    assert (watch.total, watch.counts) == (4, {"s1": 0})
    for number, part in enumerate(parts, 1):
        clock[0] += 60
        stand(store, part)
        watch.look()
        assert watch.counts == {"s1": number}
    stand(store, "old6")
    clock[0] += 101
    with pytest.raises(StalledError):
        watch.look()


def test_a_worker_that_passes_rows_does_not_stand_still(tmp_path: Path, clock: list[float]) -> None:
    store = Store(tmp_path)
    watch = Watch(CHAIN, store, CHAIN.stages, ["p0"], stall_s=100)
    folder = store.stage_dir("s1", FINGERPRINT)
    notes = [folder / note_name(part) for part in ("p0", "of another run")]
    for note in notes:
        Attempt(note)
    for hour in range(1, 4):
        clock[0] += 60
        os.utime(notes[0], (hour, hour))
        watch.look()
    clock[0] += 101
    os.utime(notes[1], (4, 4))
    with pytest.raises(StalledError, match="s1 has 1 parts to do"):
        watch.look()
