"""RayDataRunner: Ray Data schedules the *names* of parts over pools of actors; rows never travel.

All stages form one streaming execution, so that one part is encoded while the next is parsed.
Neighbouring stages with the same resources share a pool of actors. A finished stage gets no pool.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa
import ray
import ray.data
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.execution.streaming_executor import StreamingExecutor
from ray.util.annotations import RayDeprecationWarning

from srrag.core.stage import Plan, Stage
from srrag.core.step import Function, ParallelMap, Place
from srrag.engine.base import Model
from srrag.llm.completion import AnswersAwaited, BudgetSpent, EngineStopped, one_line
from srrag.runner.engines import Engines, engines_of
from srrag.runner.part import run_part
from srrag.runner.progress import shown
from srrag.runner.ray.engines import engines_on_ray
from srrag.runner.ray.nodes import capacity, spread_over_ray
from srrag.runner.ray.watch import Watch, watch_head
from srrag.runner.runner import at_once, lacking
from srrag.storage.store import Store

_GRACE_S = 10.0


_RUN = "srrag_run"
"""Which run a dataset is of, among the settings of its context."""


class Ending(ExecutionCallback):
    """Ends the execution of a run that nobody waits for any more.

    Ray Data has no call for it: an execution and its actors go on until the dataset is garbage.
    """

    asked: ClassVar[set[str]] = set()

    def on_execution_step(self, executor: StreamingExecutor) -> None:
        """Raise where the execution's run is asked to end; its consumer gets the error."""
        if executor._data_context.get_config(_RUN) in self.asked:
            raise RuntimeError("the run is over")


class Consumer(threading.Thread):
    """Consumes a dataset to its end; `failure` is the exception that stopped it, if any.

    `over` is set at its end. An interrupt of `join` would tell that a thread has ended which has
    not (Python 3.11).
    """

    def __init__(self, dataset: ray.data.Dataset) -> None:
        """Keep the dataset; `start` begins to consume it."""
        super().__init__(name="ray-data", daemon=True)
        self.failure: BaseException | None = None
        self.over = threading.Event()
        self._dataset = dataset

    def run(self) -> None:
        """Consume every batch."""
        try:
            for _ in self._dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
                pass
        except BaseException as error:  # the driver's thread raises it
            self.failure = error
        finally:
            self.over.set()

    def end(self) -> None:
        """End the execution if it still goes on, as after an interrupt; waits for it a while."""
        if not self.over.is_set():
            said = logging.getLogger("ray.data")
            level = said.level
            said.setLevel(logging.CRITICAL)  # the end that was asked for is no fault to report
            Ending.asked.add(self._dataset.context.get_config(_RUN))
            self.over.wait(_GRACE_S)
            said.setLevel(level)


MAX_RESTARTS = 40
"""Maximum restarts of one actor: enough for the strikes of several poison rows, yet finite."""

_POLL_S = 0.5


def _map_batches(dataset: ray.data.Dataset, *args: Any, **options: Any) -> ray.data.Dataset:
    """Map with bounded restarts; Ray 2.60 accepts the bound only by a deprecated option."""
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
    """An actor that runs some stages, one after the other, on the parts that it is given."""

    def __init__(self, root: str, work: Sequence[StageWork], at: Place) -> None:
        """Keep the arguments; the steps open later."""
        self.store = Store(root)
        self.work = work
        self.at = at
        # Opened here, so that models load while other pools work on the first parts.
        self.functions = {item.stage.name: self._open(item.stage) for item in work}

    def __call__(self, names: pa.Table) -> pa.Table:
        """Run the missing stages of the named parts, and return the names."""
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
        if self.store.has_part(name, fingerprint, part):
            return
        waits = any(isinstance(each, Model) and each.deferred for each in self.at.clients)
        if waits and not self.store.has_part(*work.source, part):
            return  # its prompts wait for answers, which the end of the engines says
        with contextlib.suppress(AnswersAwaited):
            function = self.functions[name]
            run_part(self.store, work.stage, fingerprint, work.source, part, function)

    def _open(self, stage: Stage) -> Function:
        # The threads of the process that runs the plan are no measure of a worker's.
        return stage.step.open(stage.placed(replace(self.at, threads=1)))


def pools(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Group neighbouring stages with the same resources; each group shares one pool of actors."""
    return [list(group) for _, group in groupby(stages, key=lambda stage: stage.resources)]


def _check_listens(address: str) -> None:
    """Raise RuntimeError at once if nothing listens at the address, instead of minutes of retries.

    This happens if "auto" finds a Ray that listens on loopback only, as `srrag serve` starts one.
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

    `address` is a running cluster ("auto" finds the one of this host); "local" starts one here with
    `num_cpus` logical CPUs. Set it above the number of cores: stages take fractions, and Ray waits
    silently when they run out. The run stops after `stall_s` seconds in which no part is
    finished, no batch of rows passes and no model answers; on an object store, batches are seen of
    workers of this machine alone.
    `grows_s` is how long an autoscaler may take to add nodes.
    """

    address: str = "local"
    num_cpus: int = 8
    object_store_mb: int = 256
    stall_s: float = 900.0
    grows_s: float = 0.0

    def connect(self) -> bool:
        """Join or start Ray; returns True if this call started it."""
        if ray.is_initialized():
            return False
        options: dict[str, Any] = {
            "include_dashboard": False, "log_to_driver": False, "logging_level": logging.WARNING,
        }  # fmt: skip
        if self.address == "local":
            options.update(num_cpus=self.num_cpus, object_store_memory=self.object_store_mb << 20)
        else:
            _check_listens(self.address)
        former = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=self.address, **options)
        except Exception as error:  # Ray raises bare exceptions, as when its node starts too slowly
            raise RuntimeError(f"Ray did not start: {one_line(error)}") from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, former)  # Ray's own one skips cleanup
        watch_head(own=self.address == "local")
        return True

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks; all stages stream."""
        missing = lacking(plan, store, parts)
        if not missing:
            return
        wanted = set().union(*missing.values())
        names = [part for part in parts if part in wanted]
        stages = [stage for stage in plan.steps if stage.name in missing]
        models = engines_of([stage.step for stage in stages])
        held = [pool[0].resources for pool in pools(stages)]
        with (
            self.session(),
            shown(),
            capacity(held, models, self.grows_s),
            engines_on_ray(models, at) as engines,
        ):
            at = replace(at, clients=engines.clients)
            dataset = self._dataset(plan, store, stages, names, at)
            watch = Watch(plan, store, stages, parts, self.stall_s, engines.figures)
            self._drain(Consumer(dataset), watch)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep Ray running between several runs; end it if this call started it."""
        started = self.connect()
        try:
            yield
        finally:
            if started:
                # One that ends slowly still draws. An interpreter that exits then would abort.
                drawing = [each for each in threading.enumerate() if isinstance(each, Consumer)]
                ray.shutdown()
                for each in drawing:
                    each.over.wait(_GRACE_S)

    def spread(self, gpus: float = 0.0) -> AbstractContextManager[ParallelMap]:
        """Return a parallel map over Ray; the first call joins or starts Ray."""
        return spread_over_ray(self.session, gpus)

    @contextmanager
    def engines(self, models: Sequence[Model], at: Place) -> Iterator[Engines]:
        """Run engines as actors."""
        with self.session() if models else nullcontext(), engines_on_ray(models, at) as engines:
            yield engines

    def _dataset(
        self, plan: Plan, store: Store, stages: Sequence[Stage], names: Sequence[str], at: Place
    ) -> ray.data.Dataset:
        context = ray.data.DataContext.get_current().copy()  # other datasets keep their settings
        context.enable_progress_bars = False
        # Else the first worker to start takes the next parts too, and the others idle.
        context.max_tasks_in_flight_per_actor = 1
        context.custom_execution_callback_classes = [
            *context.custom_execution_callback_classes, Ending,
        ]  # fmt: skip
        context.set_config(_RUN, uuid.uuid4().hex)
        with ray.data.DataContext.current(context):
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
        try:
            while not consumer.over.wait(pause_s):
                began = time.monotonic()
                watch.look()
                # Each look lists all finished parts, which takes long when there are 100,000.
                pause_s = max(_POLL_S, 20 * (time.monotonic() - began))
        finally:
            consumer.end()
        if consumer.failure is not None:
            raise _cause(consumer.failure)
        watch.look()


_STOPPED = re.compile(
    rf"{EngineStopped.__module__}\.(?:{EngineStopped.__name__}|{BudgetSpent.__name__}): (.+)"
)


def _cause(error: BaseException) -> BaseException:
    """Return the engine's error if it ended a worker; Ray passes it on only as text."""
    stopped = _STOPPED.search(str(error))
    return EngineStopped(stopped[1]) if stopped else error
