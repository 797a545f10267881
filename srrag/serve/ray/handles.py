"""Calls steps and engines that run in other deployments.

When a replica dies during a call, the call is retried on another replica.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from ray import serve
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import DeploymentUnavailableError, RayServeException
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ApplicationStatus

from srrag.engine.base import Call, Opener, Reply
from srrag.llm.completion import EngineStopped, one_line
from srrag.runner.ray.engines import TRIES, ReplicaSession
from srrag.serve.errors import ApiError, Refused, busy, late, stopping
from srrag.serve.listeners import ClientGone
from srrag.serve.remote_steps import RemoteCall
from srrag.serve.settings import Rate

OPEN_S = 600.0
"""Seconds that opening a step may take, since it may load a model."""

_LOOK_S = 0.05

_STATUS_S = 1.0
"""Seconds between two looks whether the server that a step is opened for is being deleted."""


class Peers:
    """Tells a rate limit how many replicas of this one's deployment share it."""

    def __init__(self, rate: Rate) -> None:
        """Bind the limit."""
        self._rate, self._looking = rate, threading.Lock()

    def look(self) -> None:
        """Count the running replicas in a thread, since the controller may answer slowly."""
        if self._rate.per_minute and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        try:
            own = serve.get_replica_context()
            deployments = serve.status().applications[own.app_name].deployments
            states = deployments[own.deployment].replica_states
            self._rate.replicas = sum(n for state, n in states.items() if state == "RUNNING") or 1
        finally:
            self._looking.release()


@dataclass(frozen=True)
class DeploymentStepCaller:
    """Calls the steps of one deployment."""

    handle: DeploymentHandle[Any]

    def __call__(
        self, work: RemoteCall, table: bytes, seconds: float, wanted: Callable[[], bool]
    ) -> bytes:
        """See srrag.serve.remote_steps.RemoteCaller."""
        until = time.monotonic() + (seconds if table else OPEN_S)
        for _ in range(TRIES):
            try:
                if not table and self._opened_by_all(work, until):
                    return b""
                return self._asked(work, table, until, wanted)
            except RayActorError:
                continue
            except RayServeException as error:  # at its limit, or not deployed
                raise Refused(busy(1.0)) from error
            except RayTaskError as error:
                raise error.cause from None
        raise Refused(busy(5.0))

    def _opened_by_all(self, work: RemoteCall, until: float) -> bool:
        """Open a step in every replica, so that no question waits for it; False if none runs."""
        seconds = until - time.monotonic()
        opening = self.handle.broadcast("run", work, b"", seconds)
        try:
            results = opening.results(timeout_s=seconds)
        except DeploymentUnavailableError:
            return False
        except TimeoutError:
            raise Refused(late()) from None
        for fault in results:
            if isinstance(fault, ApiError):
                raise Refused(fault)
        return True

    def _asked(
        self, work: RemoteCall, table: bytes, until: float, wanted: Callable[[], bool]
    ) -> bytes:
        """Make one call; cancel it there when no client waits for it any more.

        The replicas of a server that is deleted do not come back: a start that waits for them until
        Ray kills it would hold up the end of the server.
        """
        response = self.handle.run.remote(work, table, until - time.monotonic())
        while True:
            try:
                result: bytes | ApiError = response.result(
                    timeout_s=_LOOK_S if table else _STATUS_S
                )
            except TimeoutError:
                if not table and self._is_deleted():
                    response.cancel()  # type: ignore[no-untyped-call]
                    raise Refused(stopping()) from None
                if wanted() and time.monotonic() < until:
                    continue
                response.cancel()  # type: ignore[no-untyped-call]
                if wanted():
                    raise Refused(late()) from None
                raise ClientGone("nobody waits for the answer any more") from None
            if isinstance(result, ApiError):
                raise Refused(result)
            return result

    def _is_deleted(self) -> bool:
        app = serve.status().applications.get(self.handle.app_name)
        return app is None or app.status == ApplicationStatus.DELETING


def opener(name: str, handle: DeploymentHandle[Any]) -> Opener:
    """Return the opener of an engine that runs in another deployment."""

    async def opened() -> DeploymentSession:
        return DeploymentSession(name, [handle])

    return opened


class DeploymentSession(ReplicaSession):
    """An engine's session in another deployment, which streams tokens as they are generated."""

    async def _sent(self, call: Call) -> Reply:
        try:
            return await super()._sent(call)
        except RayServeException as error:
            raise _away(error) from error

    async def stream(self, call: Call) -> AsyncGenerator[str | Reply, None]:
        """Yield the pieces of an answer, then the reply; if the replica dies, only a new reply.

        Raises EngineStopped.
        """
        pieces: Any = self._replicas[0].options(stream=True).stream.remote(call)
        try:
            async for piece in pieces:
                yield piece
                if isinstance(piece, Reply):
                    return
        except RayActorError:
            yield await self.complete(call)
        except RayServeException as error:
            raise _away(error) from error
        except RayTaskError as error:
            raise EngineStopped(one_line(error.cause)) from None
        finally:
            pieces.cancel()


def _away(error: RayServeException) -> EngineStopped:
    return EngineStopped(f"the engine takes no call: {one_line(error)}")
