"""One small real model, through vLLM in this process and behind an HTTP server."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.unit.serve.serving import free_port

FOLDER = Path(os.environ.get("SRRAG_SMALL_MODEL", "~/.cache/srrag-tests/smollm2-135m")).expanduser()
INSTALLED = importlib.util.find_spec("vllm") is not None
CONTEXT = 6000
START_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs vLLM and the model where they are not."""
    reason = "" if INSTALLED else "vLLM's CPU build is not installed: make test-llm"
    if INSTALLED and not (FOLDER / "model.safetensors").exists():
        reason = f"{FOLDER}: the small model is not made: make test-llm"
    for item in items:
        if reason and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """Two cores are shared with others: threads are not bound to cores."""
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")


@pytest.fixture(scope="session")
def vllm() -> list[str]:
    """Settings of the engine in this process."""
    return [
        "engine=vllm", f"engine.model={FOLDER}", "engine.device=cpu", "engine.dtype=bfloat16",
        "engine.enforce_eager=true", "engine.kv_cache_gb=1", "engine.max_num_seqs=8",
        f"engine.max_model_len={CONTEXT}",
    ]  # fmt: skip


@pytest.fixture(scope="session")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Settings of an engine behind vLLM's own server, which is up."""
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(FOLDER),
        "--served-model-name", "small", "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "bfloat16", "--enforce-eager", "--max-model-len", str(CONTEXT),
        "--max-num-seqs", "8", "--no-enable-chunked-prefill",
    ]  # fmt: skip
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, server, log)
        yield [
            "engine=http", "engine.model=small", f"engine.base_url={url}/v1",
            "engine.api_key_env=null", "engine.timeout_s=240", "engine.concurrency=8",
            f"engine.tokenizer={FOLDER}",
        ]  # fmt: skip
    finally:
        server.terminate()
        server.wait(60)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers; fail with its log if it ends."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            if httpx.get(f"{url}/health", verify=False, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(1)
    raise AssertionError(f"no server in {START_S} s: {log.read_text()[-3000:]}")
