"""The engines of a run on Ray: one host actor, and replicas of models that need their own.

They start once a run, and every stage shares them. Ray restarts an actor that dies; each call that
was in flight is then retried alone, which finds a call that kills its engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError

from srrag.core.step import Place
from srrag.engine.base import Call, Model, Opener, Reply, Session, SessionLostError, pieces
from srrag.engine.client import DispatcherLostError, LogClient
from srrag.engine.dispatcher import Dispatchers
from srrag.llm.completion import Account, Engine, EngineStopped, Fault, one_line
from srrag.runner.engines import (
    Engines,
    Figures,
    awaiting,
    check_prices,
    locked_log,
    log_folder,
)

TRIES = 3
"""Attempts per call. The limit stops a call that itself kills replicas."""


class EngineReplica:
    """One process that holds one session of a model."""

    def __init__(self, model: Model) -> None:
        """Keep the model; the session starts with `load` or the first call."""
        self._model = model
        self._opening = asyncio.Lock()
        self._session: Session | None = None

    async def load(self) -> Session:
        """Return the session, once the model is loaded."""
        async with self._opening:
            if self._session is None:
                self._session = await self._model.open()
        return self._session

    async def complete(self, call: Call) -> Reply:
        """Answer one call; if the session is lost, the process exits and Ray starts another."""
        session = await self.load()
        try:
            return await session.complete(call)
        except SessionLostError:
            os._exit(1)

    async def stream(self, call: Call) -> AsyncGenerator[str | Reply, None]:
        """Yield an answer's pieces, then the reply; exits like `complete` does."""
        session = await self.load()
        try:
            async for piece in pieces(session, call):
                yield piece
        except SessionLostError:
            os._exit(1)

    async def close(self) -> None:
        """Release the session."""
        if self._session is not None:
            await self._session.close()


class ReplicaSession:
    """A session over replicas, each a Ray handle: a call goes to the one with the fewest calls.

    When a replica dies, its calls are sent again, `TRIES` times in all. With `alone`, one at a time
    after a pause of `pause_s` seconds, so that a call that kills its engine kills no other's.
    """

    def __init__(
        self, name: str, replicas: Sequence[Any], *, alone: bool = False, pause_s: float = 0.0
    ) -> None:
        """Keep the handles and the engine's name."""
        self._name, self._replicas, self._pause_s = name, replicas, pause_s
        self._load = [0] * len(replicas)
        self._again = asyncio.Lock() if alone else nullcontext()

    async def complete(self, call: Call) -> Reply:
        """Answer one call; raises EngineStopped, or SessionLostError if TRIES replicas died."""
        try:
            return await self._sent(call)
        except RayActorError as error:
            reason = one_line(error)
        async with self._again:
            for _ in range(TRIES - 1):
                try:
                    return await self._sent(call)
                except RayActorError as error:
                    reason = one_line(error)
                    await asyncio.sleep(self._pause_s)
        raise SessionLostError(reason)

    async def _sent(self, call: Call) -> Reply:
        place = min(range(len(self._load)), key=self._load.__getitem__)
        self._load[place] += 1
        try:
            reply: Reply = await self._replicas[place].complete.remote(call)
            return reply
        except RayTaskError as error:
            raise EngineStopped(f"{self._name}: {one_line(error.cause)}") from None
        finally:
            self._load[place] -= 1

    async def close(self) -> None:
        """Do nothing: whoever started the replicas ends them."""


MAX_RESTARTS = 20
"""Maximum restarts of the host or of one replica."""

MAX_CALLS = 100_000
"""Calls that an actor may hold at a time; the host bounds the number of calls in flight."""

_PAUSE_S = 1.0


class ActorSession(ReplicaSession):
    """A session over actors, in which a call that kills every replica is a fault of this call."""

    async def complete(self, call: Call) -> Reply:
        """Answer a call; raises EngineStopped."""
        try:
            return await super().complete(call)
        except SessionLostError as error:
            fault = Fault("crash", f"the engine died under this call: {one_line(error)}")
            return Reply(fault=fault)

    async def close(self) -> None:
        """Close every replica that still runs."""
        closing = [replica.close.remote() for replica in self._replicas]
        await asyncio.gather(*closing, return_exceptions=True)


class DispatcherActor:
    """An actor that holds the hosts of all engines."""

    def __init__(
        self, replicas: Mapping[Model, Sequence[ActorHandle[Any]]], folder: Path, account: Account
    ) -> None:
        """Read the spent budget from the log, which also covers the time before a restart."""
        openers: dict[Model, Opener] = {
            engine: engine.open if not handles else _opener(engine, handles)
            for engine, handles in replicas.items()
        }
        self._hosts = Dispatchers(openers, folder, account)

    async def complete(self, engine: Model, calls: Sequence[Call]) -> list[Reply]:
        """See Hosts.complete."""
        return await self._hosts.complete(engine, calls)

    async def figures(self) -> Figures:
        """See Hosts.figures."""
        return self._hosts.figures()

    async def close(self) -> str:
        """Close every host; returns what has to be answered before the next run."""
        await self._hosts.close()
        return self._hosts.awaited()


def _opener(engine: Model, handles: Sequence[ActorHandle[Any]]) -> Opener:
    async def opened() -> Session:
        return ActorSession(engine.name, handles, alone=True, pause_s=_PAUSE_S)

    return opened


@dataclass(frozen=True)
class _Send:
    """The function by which a worker's client sends calls to the host."""

    host: ActorHandle[Any]
    engine: Model

    def __call__(self, calls: Sequence[Call]) -> list[Reply]:
        try:
            replies: list[Reply] = ray.get(self.host.complete.remote(self.engine, calls))
            return replies
        except RayTaskError as error:
            raise EngineStopped(one_line(error.cause)) from None
        except RayActorError as error:
            time.sleep(_PAUSE_S)
            raise DispatcherLostError(one_line(error)) from error


@contextmanager
def engines_on_ray(models: Sequence[Model], at: Place) -> Iterator[Engines]:
    """Run engines on the Ray cluster that this process has joined, and stop them at the end."""
    if not models:
        yield Engines()
        return
    check_prices(models, at)
    with locked_log(at):
        replicas = {each: _replicas(each) for each in dict.fromkeys(m.started for m in models)}
        host: ActorHandle[Any] = _actor(DispatcherActor, 0.0, 0.0).remote(
            replicas, log_folder(at), at.account
        )
        last: Figures = {}

        def figures() -> Figures:
            # While the host restarts, show the former figures.
            with contextlib.suppress(RayError):
                last.update(ray.get(host.figures.remote(), timeout=5.0))
            return last

        clients: dict[Engine, LogClient] = {
            each: LogClient(each, log_folder(at), _Send(host, each.started), at.account.fresh)
            for each in models
        }
        try:
            with awaiting(lambda: str(ray.get(host.close.remote()))):
                yield Engines(clients, figures)
        finally:
            for actor in (host, *(handle for handles in replicas.values() for handle in handles)):
                ray.kill(actor)


def _replicas(engine: Model) -> list[ActorHandle[Any]]:
    worker = engine.worker()
    if worker is None:
        return []
    actor = _actor(EngineReplica, worker.cpus, worker.gpus)
    return [actor.remote(engine) for _ in range(engine.replicas)]


def _actor(cls: type, cpus: float, gpus: float) -> Any:
    options: dict[str, Any] = {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "max_restarts": MAX_RESTARTS,
        "max_concurrency": MAX_CALLS,
    }
    return ray.remote(**options)(cls)
