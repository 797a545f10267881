"""RayDataRunner: Ray Data schedules part *names* over pools of actors; rows never travel.

All stages form one streaming execution, so that a part is encoded while the next is parsed.
Neighbouring stages with the same resources share a pool of actors. A stage of which nothing is
missing gets none.
"""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import ray
import ray.data
from ray.util.annotations import RayDeprecationWarning

from srrag.engine.base import Model
from srrag.llm.completion import EngineStopped, one_line
from srrag.runner.engines import Engines, engines_of
from srrag.runner.part import run_part
from srrag.runner.ray.capacity import capacity
from srrag.runner.ray.consumer import Consumer, shut_down
from srrag.runner.ray.engines import engines_on_ray
from srrag.runner.ray.map import spread_over_ray
from srrag.runner.ray.stall_watch import Watch
from srrag.runner.runner import at_once
from srrag.stage import Plan, Stage
from srrag.step import Function, ParallelMap, Place
from srrag.storage.store import Store

MAX_RESTARTS = 40
"""Restarts of one actor: more than the strikes of several poison rows, fewer than for ever."""

_POLL_S = 0.5


def _map_batches(dataset: ray.data.Dataset, *args: Any, **options: Any) -> ray.data.Dataset:
    """Map with bounded restarts: Ray 2.60 takes them only by a way that it calls deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RayDeprecationWarning)
        return dataset.map_batches(*args, **options)


@dataclass(frozen=True)
class StageWork:
    """A stage with its fingerprint, and its input stage with its fingerprint."""

    stage: Stage
    fingerprint: str
    source: tuple[str, str]


class PartWorker:
    """An actor that runs a few stages, one after the other, on the parts whose names come in."""

    def __init__(self, root: str, work: Sequence[StageWork], at: Place) -> None:
        """Keep what opening will need."""
        self.store = Store(root)
        self.work = work
        self.at = at
        # Opened here, so that models load while other pools work on the first parts.
        self.functions = {item.stage.name: self._open(item.stage) for item in work}

    def __call__(self, names: pa.Table) -> pa.Table:
        """Run what is missing of the named parts, and hand the names on."""
        by_name = {work.stage.name: work for work in self.work}
        groups = at_once([work.stage for work in self.work])
        for part in names["part"].to_pylist():
            for group in groups:
                runs = [partial(self._run, by_name[stage.name], part) for stage in group]
                if len(runs) == 1:
                    runs[0]()
                    continue
                with ThreadPoolExecutor(len(runs), thread_name_prefix="stage") as threads:
                    for done in [threads.submit(run) for run in runs]:
                        done.result()
        return names

    def _run(self, work: StageWork, part: str) -> None:
        name, fingerprint = work.stage.name, work.fingerprint
        if not self.store.has_part(name, fingerprint, part):
            function = self.functions[name]
            run_part(self.store, work.stage, fingerprint, work.source, part, function)

    def _open(self, stage: Stage) -> Function:
        return stage.step.open(replace(self.at, threads=stage.resources.threads))


def pools(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Neighbours that ask for the same resources share one pool of actors."""
    return [list(group) for _, group in groupby(stages, key=lambda stage: stage.resources)]


def _check_listens(address: str) -> None:
    """Raise RuntimeError at once where nobody listens: Ray would try for minutes.

    So it does where "auto" finds a Ray that keeps to loopback, as `srrag serve` starts one.
    """
    if address == "auto":
        from ray._private.services import canonicalize_bootstrap_address

        address = canonicalize_bootstrap_address(address) or ""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise RuntimeError(f"no Ray at {address}: {error}") from error


@dataclass(frozen=True)
class RayDataRunner:
    """Runs the steps of a plan on a Ray cluster.

    `address` is a running cluster's ("auto" finds the one of this host); "local" starts one
    here with `num_cpus` logical CPUs: more than cores, since stages take shares and Ray waits
    without a word when they run out. `stall_s` without a finished part ends the run. Where an
    autoscaler brings nodes, `grows_s` is how long they may take.
    """

    address: str = "local"
    num_cpus: int = 8
    object_store_mb: int = 256
    stall_s: float = 900.0
    grows_s: float = 0.0

    def connect(self) -> bool:
        """Join or start Ray; True if it was started here."""
        if ray.is_initialized():
            return False
        options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False}
        if self.address == "local":
            options.update(num_cpus=self.num_cpus, object_store_memory=self.object_store_mb << 20)
        else:
            _check_listens(self.address)
        former = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=self.address, **options)
        except Exception as error:  # Ray raises bare ones, as when its node is not up in time
            raise RuntimeError(f"Ray did not start: {one_line(error)}") from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, former)  # Ray's own would end the process as it stands
        return True

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks, all stages streaming."""
        lacking = {
            stage.name: set(parts) - store.parts(stage.name, plan.fingerprint(stage.name))
            for stage in plan.steps
        }
        names = [part for part in parts if any(part in missing for missing in lacking.values())]
        if not names:
            return
        started = self.connect()
        consumer: Consumer | None = None
        try:
            stages = [stage for stage in plan.steps if lacking[stage.name]]
            models = engines_of([stage.step for stage in stages])
            held = [pool[0].resources for pool in pools(stages)]
            with capacity(held, models, self.grows_s), engines_on_ray(models, at) as engines:
                at = replace(at, clients=engines.clients)
                dataset = self._dataset(plan, store, stages, names, at)
                watch = Watch(plan, store, stages, len(parts), self.stall_s, engines.figures)
                consumer = Consumer(dataset)
                self._drain(consumer, watch)
        finally:
            if started:
                shut_down(consumer)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep Ray up between several runs."""
        started = self.connect()
        try:
            yield
        finally:
            if started:
                drawing = (each for each in threading.enumerate() if isinstance(each, Consumer))
                shut_down(next(drawing, None))

    def spread(self, gpus: float = 0.0) -> AbstractContextManager[ParallelMap]:
        """Calls over Ray, which is joined or started when there is the first one."""
        return spread_over_ray(self.session, gpus)

    @contextmanager
    def engines(self, models: Sequence[Model], at: Place) -> Iterator[Engines]:
        """Have engines up as actors."""
        started = bool(models) and self.connect()
        try:
            with engines_on_ray(models, at) as engines:
                yield engines
        finally:
            if started:
                ray.shutdown()

    def _dataset(
        self, plan: Plan, store: Store, stages: Sequence[Stage], names: Sequence[str], at: Place
    ) -> ray.data.Dataset:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        # Else the worker that is up first is given the next parts too, while others have none.
        context.max_tasks_in_flight_per_actor = 1
        dataset: ray.data.Dataset = ray.data.from_arrow(
            [pa.table({"part": [name]}) for name in names]
        )
        for pool in pools(stages):
            resources = pool[0].resources
            work = [
                StageWork(
                    stage,
                    plan.fingerprint(stage.name),
                    (stage.inputs[0], plan.fingerprint(stage.inputs[0])),
                )
                for stage in pool
            ]
            dataset = _map_batches(
                dataset,
                PartWorker,
                fn_constructor_args=(str(store.root), work, at),
                batch_size=1,
                batch_format="pyarrow",
                concurrency=resources.workers,
                num_cpus=resources.cpus,
                num_gpus=resources.gpus or None,
                max_restarts=MAX_RESTARTS,
                max_task_retries=MAX_RESTARTS,
            )
        return dataset

    def _drain(self, consumer: Consumer, watch: Watch) -> None:
        consumer.start()
        pause_s = _POLL_S
        while consumer.is_alive():
            consumer.join(pause_s)
            began = time.monotonic()
            watch.look()
            # A look lists what stands: of a hundred thousand parts it must not be all that is done.
            pause_s = max(_POLL_S, 20 * (time.monotonic() - began))
        if consumer.failure is not None:
            raise _cause(consumer.failure)
        watch.look()


_STOPPED = re.compile(rf"{EngineStopped.__module__}\.{EngineStopped.__qualname__}: (.+)")


def _cause(error: BaseException) -> BaseException:
    """What ended a worker, if it was the engine: Ray hands its words on as text alone."""
    stopped = _STOPPED.search(str(error))
    return EngineStopped(stopped[1]) if stopped else error
