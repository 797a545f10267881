"""LocalRunner: every stage in this process, one part after the other.

Where a model answers, several parts are in flight, so that one part's last calls do not leave
the engine idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from srrag.engine.model import Model
from srrag.runner.engines import Engines, engines_here, engines_of
from srrag.runner.part import run_part
from srrag.runner.progress import CallProgress, Progress
from srrag.stage import Plan, Stage
from srrag.step import Place
from srrag.store import Store

PARTS_IN_FLIGHT = 4


@dataclass(frozen=True)
class LocalRunner:
    """Runs the steps of a plan in this process; `threads` are the CPU threads it may use."""

    threads: int = 0

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks."""
        missing = {
            stage.name: [
                part
                for part in parts
                if part not in store.parts(stage.name, plan.fingerprint(stage.name))
            ]
            for stage in plan.steps
        }
        stages = [stage for stage in plan.steps if missing[stage.name]]
        with engines_here(engines_of([stage.step for stage in stages]), at) as engines:
            calls = CallProgress(engines.figures)
            for stage in stages:
                self._run_stage(
                    plan, store, stage, missing[stage.name], len(parts), calls,
                    replace(at, clients=engines.clients),
                )  # fmt: skip

    def engines(self, models: Sequence[Model], at: Place) -> AbstractContextManager[Engines]:
        """Have engines up on a thread of this process."""
        return engines_here(models, at)

    def _run_stage(
        self,
        plan: Plan,
        store: Store,
        stage: Stage,
        missing: Sequence[str],
        total: int,
        calls: CallProgress,
        at: Place,
    ) -> None:
        fingerprint = plan.fingerprint(stage.name)
        source = (stage.inputs[0], plan.fingerprint(stage.inputs[0]))
        progress = Progress(stage.name, total, total - len(missing))
        function = stage.step.open(replace(at, threads=self.threads or stage.resources.threads))

        def run(part: str) -> None:
            run_part(store, stage, fingerprint, source, part, function, progress.rows)
            progress.update(progress.done + 1)

        if engines_of([stage.step]):
            _in_flight(run, missing, calls)
        else:
            for part in missing:
                run(part)


def _in_flight(run: Callable[[str], None], parts: Sequence[str], calls: CallProgress) -> None:
    """Run parts on a few threads; the first error ends it, and what waits is not begun."""
    pool = ThreadPoolExecutor(PARTS_IN_FLIGHT, thread_name_prefix="part")
    try:
        waiting = {pool.submit(run, part) for part in parts}
        while waiting:
            done, waiting = wait(waiting, timeout=calls.interval_s, return_when=FIRST_EXCEPTION)
            calls.show()
            for future in done:
                future.result()
    finally:
        # Those that run end by themselves: their engine stops when the caller leaves.
        pool.shutdown(wait=False, cancel_futures=True)
