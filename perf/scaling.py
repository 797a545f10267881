"""How the extraction stage scales with workers: `python -m perf.scaling`.

A stub answers each prompt after a known latency, so that what is lost is the scheduler's. Ray is up
and the workers have opened before the clock starts: from the part by which every worker has made
one to the last, a worker makes `1 / (rows × latency)` parts a second at best.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import ray
import ray.cloudpickle

from srrag.runner.ray.data import RayDataRunner
from srrag.schema import relation
from srrag.stage import Plan, Resources, Stage
from srrag.step import Function, Place, Step
from srrag.storage.store import Receipt, Store

ROWS, LATENCY_S, PARTS_A_WORKER = 4, 0.25, 20
PROMPTS = relation(("row_id", pa.string()))


@dataclass(frozen=True, kw_only=True)
class AnswerLate(Step):
    """Hands its rows on, each after the latency of a call."""

    reads: ClassVar[tuple[str, ...]] = ("row_id",)
    writes: ClassVar[pa.Schema] = PROMPTS

    def open(self, at: Place) -> Function:
        """Nothing to open."""

        def run(batch: pa.Table) -> pa.Table:
            time.sleep(LATENCY_S * batch.num_rows)
            return batch

        return run


def write_parts(store: Store, count: int) -> list[str]:
    """Parts of a few rows."""
    for number in range(count):
        rows = [{"row_id": f"{number}-{n}", "reject": None} for n in range(ROWS)]

        def receipt(sha256: str, num_bytes: int, name: str = f"p{number}") -> Receipt:
            return Receipt(name, ROWS, 0, 0, ROWS, 0, sha256, num_bytes, 0.0)

        store.write_part("prompts", "f0", pa.Table.from_pylist(rows, schema=PROMPTS), receipt)
    return [f"p{number}" for number in range(count)]


def rate(workers: int) -> float:
    """Parts a second once all workers have begun."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        store.create()
        parts = write_parts(store, PARTS_A_WORKER * workers)
        stage = Stage("answers", AnswerLate(), ("prompts",), Resources(cpus=0.5, workers=workers))
        plan = Plan("prompts", "f0", [stage])
        RayDataRunner().run(plan, store, parts, Place())
        fingerprint = plan.fingerprint("answers")
        made = sorted(
            store.part_path("answers", fingerprint, part).stat().st_mtime for part in parts
        )
    steady = made[workers:-workers]  # neither the start nor the end, where some wait
    return (len(steady) - 1) / (steady[-1] - steady[0])


def main() -> None:
    """Print the rate and the efficiency against one worker, for 1, 2 and 4."""
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    bound = 1 / (ROWS * LATENCY_S)
    found = {workers: rate(workers) for workers in (1, 2, 4)}
    ray.shutdown()
    rows = {
        str(workers): {
            "parts_per_s": round(value, 3),
            "of_the_bound": round(value / (workers * bound), 3),
            "efficiency": round(value / (workers * found[1]), 3),
        }
        for workers, value in found.items()
    }
    print(json.dumps({"latency_s": LATENCY_S, "rows_a_part": ROWS, "workers": rows}))


if __name__ == "__main__":
    main()
