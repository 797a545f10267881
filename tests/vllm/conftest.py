"""One real vLLM engine on the CPU, with a tiny random model, for all tests of this folder."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from srrag.engine.vllm.engine import VllmEngine
from srrag.engine.vllm.session import VllmSession

INSTALLED = importlib.util.find_spec("vllm") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs vLLM where it is not installed."""
    if not INSTALLED:
        reason = "vLLM's CPU build is not installed: make test-vllm"
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Open:
    """A session that is up, and the loop that it lives in."""

    engine: VllmEngine
    session: VllmSession
    run: Callable[[Coroutine[Any, Any, Any]], Any]


def small(model: Path) -> VllmEngine:
    """An engine that starts fast on a CPU."""
    return VllmEngine(
        model=str(model), device="cpu", dtype="float32", kv_cache_gb=0.5, max_num_seqs=64,
        enforce_eager=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny model."""
    from tests.vllm.tiny_model import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def up(tiny_model: Path) -> Iterator[Open]:
    """The engine, started once a module."""
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    loop = asyncio.new_event_loop()
    engine = small(tiny_model)
    session = loop.run_until_complete(engine.open())
    yield Open(engine, session, loop.run_until_complete)
    loop.run_until_complete(session.close())
    loop.close()
