"""Calls to other deployments, without a cluster: engines, and steps of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve.exceptions import DeploymentUnavailableError, RayServeException
from ray.serve.schema import ApplicationStatus

from srrag.engine.base import Call
from srrag.llm.completion import EngineStopped
from srrag.serve.errors import Refused
from srrag.serve.ray import handles as module
from srrag.serve.ray.handles import DeploymentSession, DeploymentStepCaller
from srrag.serve.remote_steps import RemoteCall
from tests.engines import prompt


class Away:
    """A handle of a deployment that takes no call; stands for each of its parts."""

    def __init__(self) -> None:
        self.complete = self.stream = self
        self.cancelled = False

    def options(self, stream: bool) -> Away:
        return self

    def remote(self, call: Call) -> Away:
        return self

    def cancel(self) -> None:
        self.cancelled = True

    def __await__(self) -> Any:
        raise RayServeException("not deployed")

    async def __aiter__(self) -> AsyncIterator[str]:
        raise RayServeException("not deployed")
        yield ""


@pytest.mark.parametrize("streamed", [False, True])
def test_a_deployment_that_takes_no_call_is_an_engine_that_stopped(streamed: bool) -> None:
    handle: Any = Away()
    session, call = DeploymentSession("vllm", [handle]), Call(b"k" * 16, prompt("x"), 0)

    async def asked() -> None:
        if streamed:
            async for _ in session.stream(call):
                pass
        else:
            await session.complete(call)

    with pytest.raises(EngineStopped, match="the engine takes no call: not deployed"):
        asyncio.run(asked())
    assert handle.cancelled == streamed


class NoReplica:
    """A handle of a deployment without replicas, and the response that waits for one."""

    app_name = "srrag"

    def __init__(self) -> None:
        self.run = SimpleNamespace(remote=lambda *_: self)
        self.waited, self.cancelled = 0, False

    def broadcast(self, *_: Any) -> Any:
        return self

    def results(self, **_: Any) -> Any:
        raise DeploymentUnavailableError(SimpleNamespace(name="ranker"))  # type: ignore[arg-type]

    def result(self, **_: Any) -> Any:
        self.waited += 1
        raise TimeoutError

    def cancel(self) -> None:
        self.cancelled = True


@pytest.mark.parametrize("left", [{"srrag": ApplicationStatus.DELETING}, {}])
def test_a_step_is_waited_for_until_the_server_is_deleted(
    monkeypatch: pytest.MonkeyPatch, left: dict[str, ApplicationStatus]
) -> None:
    looks = iter(
        [{"srrag": ApplicationStatus.DEPLOYING}, {"srrag": ApplicationStatus.RUNNING}, left]
    )

    def status() -> Any:
        apps = {name: SimpleNamespace(status=each) for name, each in next(looks).items()}
        return SimpleNamespace(applications=apps)

    monkeypatch.setattr(module.serve, "status", status)
    handle: Any = NoReplica()
    with pytest.raises(Refused) as told:
        DeploymentStepCaller(handle)(RemoteCall(0, "v", {}), b"", 1.0, lambda: True)
    assert told.value.fault.code == "not_ready"
    assert handle.waited == 3 and handle.cancelled
