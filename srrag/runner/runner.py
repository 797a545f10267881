"""What runners are, and LocalRunner: every stage in this process, one part after the other.

Stages that ask a model have several parts in flight, so that the engine stays busy during the last
calls of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Protocol

from srrag.core.stage import Plan, Stage
from srrag.core.step import ParallelMap, Place
from srrag.engine.base import Model
from srrag.llm.completion import LOST, AnswersAwaited
from srrag.runner.engines import Engines, engines_here, engines_of
from srrag.runner.part import run_part
from srrag.runner.progress import CallProgress, Progress, say, shown
from srrag.storage.store import Receipt, Store


def at_once(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Group stages in order: neighbours that ask models run together.

    The engines of several configurations then work at the same time. No stage of a group reads the
    output of another.
    """
    groups: list[list[Stage]] = []
    for stage in stages:
        before = groups[-1] if groups else []
        apart = not before or not engines_of([stage.step]) or not engines_of([before[0].step])
        if apart or stage.inputs[0] in {each.name for each in before}:
            groups.append([])
        groups[-1].append(stage)
    return groups


def lacking(plan: Plan, store: Store, parts: Sequence[str]) -> dict[str, list[str]]:
    """Return the parts that each stage lacks, in order, by stage; whole stages are left out."""
    found: dict[str, list[str]] = {}
    for stage in plan.steps:
        standing = store.parts(stage.name, plan.fingerprint(stage.name))
        if missing := [part for part in parts if part not in standing]:
            found[stage.name] = missing
    return found


def lost_rows(receipt: Receipt) -> int:
    """Count the rows of a part lost to errors, crashes and unparsable answers."""
    return receipt.failed + sum(receipt.reasons.get(kind, 0) for kind in LOST)


def discard(
    plan: Plan,
    store: Store,
    parts: Sequence[str],
    amiss: Callable[[str, Collection[str]], set[str]],
) -> None:
    """Remove the parts of each stage that are `amiss`, and everything made from them.

    It works from the last stage to the first: a part never outlives its input, even after a kill.
    """
    lacking: dict[str, set[str]] = {plan.source: set()}
    gone: list[tuple[str, str]] = []
    for stage in plan.steps:
        standing = store.parts(stage.name, plan.fingerprint(stage.name)) & set(parts)
        again = (standing & lacking[stage.inputs[0]]) | amiss(stage.name, standing)
        lacking[stage.name] = (set(parts) - standing) | again
        gone += [(stage.name, part) for part in sorted(again)]
    for name, part in reversed(gone):
        say(f"{name:<12} part {part} is made again")
        store.drop_part(name, plan.fingerprint(name), part)


def discard_lost(plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
    """Remove the parts that lost rows or answers, where the account grants new tries.

    A judge or a helping step loses an answer without a row. What the log holds is not asked again.
    """

    def lost(stage: str, standing: Collection[str]) -> set[str]:
        receipts = store.receipts(stage, plan.fingerprint(stage), standing)
        return {
            receipt.part
            for receipt in receipts
            if lost_rows(receipt) or receipt.usage.get("faults")
        }

    if at.account.fresh:
        discard(plan, store, parts, lost)


class Runner(Protocol):
    """Runs steps on named parts, and runs engines."""

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """Keep shared resources, such as Ray, up between several runs."""
        ...

    def spread(self, gpus: float = 0.0) -> AbstractContextManager[ParallelMap | None]:
        """Return the parallel map for builds, if any; `gpus` is the number of GPUs of a call."""
        ...

    def engines(self, models: Sequence[Model], at: Place) -> AbstractContextManager[Engines]:
        """Run engines for work other than steps on parts."""
        ...


PARTS_IN_FLIGHT = 4


@dataclass(frozen=True)
class LocalRunner:
    """Runs the steps of a plan in this process."""

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks."""
        missing = lacking(plan, store, parts)
        stages = [stage for stage in plan.steps if stage.name in missing]
        with (
            shown(),
            engines_here(engines_of([stage.step for stage in stages]), at) as engines,
        ):
            calls = CallProgress(engines.figures)
            here = replace(at, clients=engines.clients)
            waiting: set[tuple[str, str]] = set()
            for group in at_once(stages):
                self._run_stages(plan, store, group, missing, len(parts), calls, here, waiting)

    def session(self) -> AbstractContextManager[None]:
        """Do nothing; a local run needs no cluster."""
        return nullcontext()

    def spread(self, gpus: float = 0.0) -> AbstractContextManager[None]:
        """Return no parallel map: builds run in this process."""
        return nullcontext()

    def engines(self, models: Sequence[Model], at: Place) -> AbstractContextManager[Engines]:
        """Run engines on a thread of this process."""
        return engines_here(models, at)

    def _run_stages(
        self,
        plan: Plan,
        store: Store,
        stages: Sequence[Stage],
        missing: Mapping[str, Sequence[str]],
        total: int,
        calls: CallProgress,
        at: Place,
        waiting: set[tuple[str, str]],
    ) -> None:
        """Run one stage, or several that ask models, on the parts that each of them lacks.

        `waiting` collects the parts of a stage whose prompts wait for answers; later stages pass
        them over, and the end of the engines says so.
        """
        runs = []
        for stage in stages:
            waiting |= {(stage.name, p) for name, p in waiting if name == stage.inputs[0]}
            lacking = [p for p in missing[stage.name] if (stage.name, p) not in waiting]
            run = self._opened(
                plan, store, stage, total - len(missing[stage.name]), total, at, waiting
            )
            runs.append([partial(run, part) for part in lacking])
        # Alternate between the stages, so that all engines work at the same time.
        work = [each for column in zip_longest(*runs) for each in column if each is not None]
        if engines_of([stage.step for stage in stages]):
            _in_flight(work, PARTS_IN_FLIGHT * len(stages), calls)
        else:
            for each in work:
                each()

    def _opened(
        self,
        plan: Plan,
        store: Store,
        stage: Stage,
        already: int,
        total: int,
        at: Place,
        waiting: set[tuple[str, str]],
    ) -> Callable[[str], None]:
        """Open a stage; returns the function that runs it on a part."""
        fingerprint = plan.fingerprint(stage.name)
        source = (stage.inputs[0], plan.fingerprint(stage.inputs[0]))
        progress = Progress(stage.name, total, already)
        function = stage.step.open(stage.placed(at))

        def run(part: str) -> None:
            try:
                run_part(store, stage, fingerprint, source, part, function, progress.rows)
            except AnswersAwaited:
                waiting.add((stage.name, part))
                return
            progress.update(progress.done + 1)

        return run


def _in_flight(work: Sequence[Callable[[], None]], threads: int, calls: CallProgress) -> None:
    """Run parts on a few threads; the first error stops the run before the next part."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="part")
    try:
        waiting = {pool.submit(each) for each in work}
        while waiting:
            done, waiting = wait(waiting, timeout=calls.interval_s, return_when=FIRST_EXCEPTION)
            calls.show()
            for future in done:
                future.result()
    finally:
        # Running parts end by themselves: their engine stops when the caller leaves.
        pool.shutdown(wait=False, cancel_futures=True)
