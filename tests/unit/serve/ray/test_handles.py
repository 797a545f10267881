"""Sessions of engines in other deployments, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ray.serve.exceptions import RayServeException

from srrag.engine.base import Call
from srrag.llm.completion import EngineStopped
from srrag.serve.ray.handles import DeploymentSession
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
