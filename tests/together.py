"""Workers of one fit as processes of this machine, and a worker that is killed."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srrag.lab.train.group import Alone, Floats
from tests.forked import ANEW

PATIENCE_S = 300.0


class Member:
    """One of several workers (srrag.lab.train.group.Group); the first one adds for all."""

    def __init__(self, rank: int, others: list[Connection], size: int) -> None:
        self.rank, self.size, self.others = rank, size, others

    def total(self, values: Floats) -> Floats:
        """Add over the workers, in the order of their ranks."""
        if self.rank:
            self.others[0].send(values)
            return heard(self.others[0])
        summed: Floats = np.sum([values, *map(heard, self.others)], axis=0)
        for other in self.others:
            other.send(summed)
        return summed

    def restore(self) -> None:
        """Nothing was saved."""

    def report(self, metrics: dict[str, Any], state: dict[str, Any]) -> None:
        """Save nothing."""


def heard(other: Connection) -> Floats:
    """What the other end sent."""
    assert other.poll(PATIENCE_S), "another worker is silent"
    values: Floats = other.recv()
    return values


def work_together(work: Any, config: dict[str, Any], size: int = 2) -> dict[str, Any]:
    """Run `work` in `size` workers, the first of them in this process, and return its result."""
    pipes = [ANEW.Pipe() for _ in range(size - 1)]
    workers = [
        ANEW.Process(target=_work, args=(work, config, Member(rank, [end], size)), daemon=True)
        for rank, (_, end) in enumerate(pipes, start=1)
    ]
    for worker in workers:
        worker.start()
    try:
        found: dict[str, Any] = work(config, Member(0, [start for start, _ in pipes], size))
        for worker in workers:
            worker.join(PATIENCE_S)
        assert [worker.exitcode for worker in workers] == [0] * len(workers)
    finally:
        for worker in workers:
            worker.kill()
    return found


def _work(work: Any, config: dict[str, Any], member: Member) -> None:
    torch.set_num_threads(1)
    work(config, member)


class Killed(RuntimeError):
    """Ends a training where a kill would."""


class Dying(Alone):
    """A worker that is killed right after the checkpoint `at`."""

    def __init__(self, state: Path, at: int) -> None:
        super().__init__(state)
        self.at = at

    def report(self, metrics: dict[str, Any], state: dict[str, Any]) -> None:
        super().report(metrics, state)
        if state["done"] == self.at:
            raise Killed


def resumed(work: Any, config: dict[str, Any], at: int) -> dict[str, Any]:
    """What a training finds that was killed after a checkpoint and run again."""
    state = Path(config["state"]) / "state.json"
    with pytest.raises(Killed):
        work(config, Dying(state, at))
    found: dict[str, Any] = work(config, Alone(state))
    return found
