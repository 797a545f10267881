"""Small steps that double, fail, die or hang, for the runners' tests."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from srrag.core.schema import relation
from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import Function, Place, Step
from srrag.corpus.record import RawRecord

NUMBERS = relation(("raw_id", pa.string()), ("value", pa.int64()))


@dataclass(frozen=True, kw_only=True)
class Double(Step):
    """Doubles; raises on `bad`, kills its process on `deadly`, hangs for `pause_s` a part.

    From the value `held` on it waits for the file `gate`; on `frozen` its process stands still, as
    by SIGSTOP, unless that file exists.
    """

    bad: int = -1
    deadly: int = -1
    pause_s: float = 0.0
    gate: str = ""
    held: int = 0
    frozen: int = -1

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "value")
    writes: ClassVar[pa.Schema] = NUMBERS

    def open(self, at: Place) -> Function:
        def run(batch: pa.Table) -> pa.Table:
            time.sleep(self.pause_s)
            values = batch["value"].to_pylist()
            if self.frozen in values and not Path(self.gate).exists():
                os.kill(os.getpid(), signal.SIGSTOP)
            while (
                self.frozen < 0
                and self.gate
                and max(values) >= self.held
                and not Path(self.gate).exists()
            ):
                time.sleep(0.02)
            if self.deadly in values:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.bad in values:
                raise ArithmeticError(f"cannot double {self.bad}")
            return batch.set_column(1, NUMBERS.field("value"), pa.array([2 * v for v in values]))

        return run


def records(numbers: range) -> list[RawRecord]:
    return [RawRecord("test", str(n), "text", str(n).encode()) for n in numbers]


def number_parts(store: object, sizes: list[int]) -> list[str]:
    """Write parts of consecutive numbers as the stage `numbers`."""
    from srrag.storage.store import Store

    assert isinstance(store, Store)
    names, start = [], 0
    for place, size in enumerate(sizes):
        name = f"p{place}"
        values = list(range(start, start + size))
        table = pa.table(
            {"raw_id": [str(v) for v in values], "value": values, "reject": [None] * size},
            schema=NUMBERS,
        )
        store.write_part("numbers", "f0", name, table)
        names.append(name)
        start += size
    return names


def plan(*steps: Step, batch_rows: int = 4, cpus: float = 0.25, workers: int = 1) -> Plan:
    """A chain of stages s1, s2, … over `numbers`."""
    stages = [
        Stage(
            f"s{n}",
            step,
            ("numbers" if n == 1 else f"s{n - 1}",),
            Resources(cpus=cpus, batch_rows=batch_rows, workers=workers, threads=n),
        )
        for n, step in enumerate(steps, start=1)
    ]
    return Plan("numbers", "f0", stages)


def values(root: Path, plan_: Plan, stage: str, parts: list[str]) -> list[int]:
    """The live values of a stage, over all parts."""
    from srrag.runner.part import live
    from srrag.storage.store import Store

    store = Store(root)
    tables = [live(store.read_part(stage, plan_.fingerprint(stage), part)) for part in parts]
    return [value for table in tables for value in table["value"].to_pylist()]
