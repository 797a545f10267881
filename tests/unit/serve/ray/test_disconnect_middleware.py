from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import TaskCancelledError

from srrag.serve.api.app import create_app
from srrag.serve.ray.retry_middleware import EndOnDisconnect
from srrag.serve.service import PipelineService
from tests.unit.serve.serving import CAST, settings


@pytest.mark.parametrize(("asked", "status"), [(True, 200), (False, 499)])
def test_a_reader_who_leaves_is_no_failure(
    sample_root: Path, tmp_path: Path, asked: bool, status: int
) -> None:
    """Of a stream that has begun, or before the body came."""
    log = tmp_path / "log.jsonl"
    host = PipelineService(settings(sample_root, "pipeline=bm25", f"log={log}"))
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": "/v1/answers/stream", "headers": headers,
        "query_string": b"", "client": ("127.0.0.1", 50000),
    }  # fmt: skip
    body = {"type": "http.request", "body": json.dumps({"question": CAST}).encode()}
    coming = iter([body] if asked else [])
    sent: list[Any] = []

    async def receive() -> Any:
        for message in coming:
            return message
        while asked and not sent:
            await asyncio.sleep(0)
        raise TaskCancelledError

    async def send(message: Any) -> None:
        sent.append(message)

    async def passed() -> None:
        async with host.running():
            await EndOnDisconnect(create_app(host))(scope, receive, send)

    asyncio.run(passed())
    (line,) = [json.loads(each) for each in log.read_text("utf-8").splitlines()]
    assert line["path"] == "/v1/answers/stream" and line["status"] == status
    assert "code" not in line and "error" not in line
    assert "srrag_errors_total{" not in host.metrics.text().decode()
    assert not any(b"event: final" in message.get("body", b"") for message in sent)
