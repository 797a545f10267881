"""The engines of a run, on a thread of this process, for the local runner and `ask`.

An engine starts at the first call that the log cannot answer, so a run without new calls starts
none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srrag.core.pipeline import PipelineSlice
from srrag.core.step import Build, Place, Step, within
from srrag.engine.base import Call, Model, Opener, Reply
from srrag.engine.client import EngineLoop, LogClient
from srrag.engine.dispatcher import Dispatchers
from srrag.engine.log.completion_log import CompletionLog
from srrag.llm.completion import AnswersAwaited, Engine, Rules

Figures = dict[str, dict[str, Any]]


@dataclass
class Engines:
    """The running engines of a run."""

    clients: Mapping[Engine, LogClient] = field(default_factory=dict)
    figures: Callable[[], Figures] = dict
    """Returns the figures of each engine so far, by its name."""


def engines_of(items: Sequence[Step | Build]) -> list[Model]:
    """Return the engines with a model that steps and builds ask, each once.

    A slice of a pipeline asks those of its own steps, not of the steps before it.
    """
    found: dict[Model, None] = {}
    asking = [
        each
        for item in items
        for one in (item.steps if isinstance(item, PipelineSlice) else [item])
        for each in (within(one) if isinstance(one, Step) else [one])
    ]
    for engine in (getattr(each, "engine", None) for each in asking):
        if isinstance(engine, Model):
            found[engine] = None
        elif isinstance(engine, Engine) and not isinstance(engine, Rules):
            raise ValueError(f"engine: {type(engine).__name__} cannot be asked")
    return list(found)


def check_prices(models: Sequence[Model], at: Place) -> None:
    """Raise ValueError if the budget limits money but a model has no price."""
    for engine in models:
        prices = engine.usd_per_mtok_in, engine.usd_per_mtok_out
        if at.account.max_usd is not None and None in prices:
            raise ValueError("budget.max_usd needs engine.usd_per_mtok_in and usd_per_mtok_out")


def log_folder(at: Place) -> Path:
    """Return the folder of the completion log."""
    if at.account.log is not None:
        return at.account.log
    if at.root is None:
        raise ValueError("engine: there is no root to keep the completions log in")
    return at.root / "completions"


@contextmanager
def locked_log(at: Place) -> Iterator[None]:
    """Lock the log for this run, and repair what a killed run left.

    Raises ValueError if another run holds the lock.
    """
    log = CompletionLog(log_folder(at))
    with log.locked():
        log.recover()
        yield


@contextmanager
def awaiting(awaited: Callable[[], str]) -> Iterator[None]:
    """End a run with AnswersAwaited if prompts wait for their answers: `awaited` says which."""
    cut: AnswersAwaited | None = None
    try:
        yield
    except AnswersAwaited as error:
        cut = error
    if told := awaited():
        raise AnswersAwaited(told) from None
    if cut is not None:
        raise cut


@contextmanager
def engines_here(
    models: Sequence[Model],
    at: Place,
    exclusive: bool = True,
    openers: Mapping[Model, Opener] | None = None,
    wait: Callable[[Future[list[Reply]]], list[Reply]] = Future.result,
) -> Iterator[Engines]:
    """Run engines on a thread of this process, and release them at the end.

    A run over many rows locks the log (`exclusive`). Single questions share it: each writer has its
    own journal, and two writers at worst pay twice for one call. `openers` replace how some engines
    start; `wait` waits for calls in the thread that made them, and may cancel them.
    """
    if not models:
        yield Engines()
        return
    check_prices(models, at)
    folder = log_folder(at)
    lock = locked_log(at) if exclusive else nullcontext()
    with lock, closing(EngineLoop()) as loop:
        chosen = {each.started: (openers or {}).get(each, each.started.open) for each in models}
        hosts = Dispatchers(chosen, folder, at.account)

        def client(engine: Model) -> LogClient:
            def send(calls: Sequence[Call]) -> list[Reply]:
                while True:
                    try:
                        return wait(loop.submit(hosts.complete(engine.started, calls)))
                    except CancelledError:  # it had joined an equal call that was given up
                        continue

            return LogClient(engine, folder, send, at.account.fresh)

        with awaiting(hosts.awaited):
            try:
                yield Engines({engine: client(engine) for engine in models}, hosts.figures)
            finally:
                loop.run(hosts.close())
