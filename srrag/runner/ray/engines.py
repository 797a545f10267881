"""The engines of a run on Ray: one host actor, and replicas of models that need their own.

They start once a run, and every stage shares them. Ray restarts an actor that dies; each call that
was in flight is then retried alone, which finds a call that kills its engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError

from srrag.engine.base import Model
from srrag.engine.call import Call, Opener, Reply, Session, SessionLostError
from srrag.engine.client import DispatcherLostError, LogClient
from srrag.engine.dispatcher import Dispatchers
from srrag.llm.completion import Account, EngineStopped, Fault, one_line
from srrag.runner.engines import Engines, Figures, check_held, check_prices, locked_log, log_folder
from srrag.step import Place

MAX_RESTARTS = 20
"""Maximum restarts of the host or of one replica."""

MAX_CALLS = 100_000
"""Calls that an actor may hold at a time; the host bounds the number of calls in flight."""

_ALONE_TRIES = 2
_PAUSE_S = 1.0


class EngineReplica:
    """An actor that holds one session of a model."""

    def __init__(self, engine: Model) -> None:
        """Keep the model; the session starts at the first call."""
        self._engine = engine
        self._opening = asyncio.Lock()
        self._session: Session | None = None

    async def complete(self, call: Call) -> Reply:
        """Answer one call; if the session is lost, the process exits and Ray restarts it."""
        async with self._opening:
            if self._session is None:
                self._session = await self._engine.open()
        try:
            return await self._session.complete(call)
        except SessionLostError:
            os._exit(1)  # Ray starts the actor again

    async def close(self) -> None:
        """Release the session."""
        if self._session is not None:
            await self._session.close()


class ReplicaSession:
    """A session over several replicas: each call goes to the replica with the fewest calls."""

    def __init__(self, engine: Model, replicas: Sequence[ActorHandle[Any]]) -> None:
        """Keep the actors."""
        self._name = engine.name
        self._replicas = replicas
        self._load = [0] * len(replicas)
        self._alone = asyncio.Lock()

    async def complete(self, call: Call) -> Reply:
        """Answer a call; if a replica dies, retry alone the calls that may have killed it."""
        try:
            return await self._sent(call)
        except RayActorError:
            pass
        async with self._alone:
            for _ in range(_ALONE_TRIES):
                try:
                    return await self._sent(call)
                except RayActorError as error:
                    detail = one_line(error)
                    await asyncio.sleep(_PAUSE_S)
        return Reply(fault=Fault("crash", f"the engine died under this call: {detail}"))

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

    async def close(self) -> Figures:
        """See Hosts.close."""
        return await self._hosts.close()


def _opener(engine: Model, handles: Sequence[ActorHandle[Any]]) -> Opener:
    async def opened() -> Session:
        return ReplicaSession(engine, handles)

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
    with locked_log(at) as lock:
        replicas = {each: _replicas(each) for each in dict.fromkeys(m.started for m in models)}
        host: ActorHandle[Any] = _actor(DispatcherActor, 0.0, 0.0).remote(
            replicas, log_folder(at), at.account
        )
        last: Figures = {}

        def figures() -> Figures:
            check_held(lock)
            # While the host restarts, show the former figures.
            with contextlib.suppress(RayError):
                last.update(ray.get(host.figures.remote(), timeout=5.0))
            return last

        try:
            yield Engines(
                {
                    each: LogClient(
                        each, log_folder(at), _Send(host, each.started), at.account.fresh
                    )
                    for each in models
                },
                figures,
            )
            ray.get(host.close.remote())
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
