"""`srrag serve` from start to end."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import httpx
import pytest

import jobs.serve
from jobs.launch import configure
from tests.unit.serve.serving import CAST, free_port

pytestmark = pytest.mark.ray


def test_the_job_serves_drains_and_ends(
    ray_cluster: None, sample_root: Path, tmp_path: Path
) -> None:
    port = free_port()
    argv = [f"root={sample_root}", f"port={port}", "stop_after_s=3", "pipeline=bm25"]
    log = tmp_path / "log.jsonl"
    argv.append(f"log={log}")
    config = {**configure("serve", argv), "command": " ".join(["srrag serve", *argv])}
    outcomes: list[str] = []
    ended = threading.Event()

    def ask() -> None:
        url = f"http://127.0.0.1:{port}/v1/answers"
        while not ended.is_set():
            try:
                answered = httpx.post(url, json={"question": CAST}, timeout=30)
                outcomes.append(str(answered.status_code))
            except httpx.HTTPError as error:
                outcomes.append(type(error).__name__)
                time.sleep(0.05)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for each in asking:
        each.start()
    try:
        summary = jobs.serve.run(config)
    finally:
        ended.set()
        for each in asking:
            each.join()
    assert summary["url"] == f"http://127.0.0.1:{port}" and summary["pipelines"] == ["bm25"]
    first = outcomes.index("200")
    last = len(outcomes) - outcomes[::-1].index("200")
    assert outcomes.count("200") > 3
    assert set(outcomes[first:last]) <= {"200", "404"}, "what was taken is answered"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line.get("status") == 200 for line in lines) >= outcomes.count("200")
    assert "ankle" not in log.read_text()
