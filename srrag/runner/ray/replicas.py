"""Replicas of a model, and the session that survives the death of one, in runs and in servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext
from typing import Any

from ray.exceptions import RayActorError, RayTaskError

from srrag.engine.base import Call, Model, Reply, Session, SessionLostError, pieces
from srrag.llm.completion import EngineStopped, one_line

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
