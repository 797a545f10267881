"""`srrag serve` from start to end, as a process with a Ray of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from srrag.serve.settings import is_loopback
from tests.e2e.test_read_only import read_only, start
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules
from tests.unit.serve.serving import CAST, free_port

pytestmark = pytest.mark.ray


ENOUGH = 20
"""Answers one after the other without a fault."""
CLIENTS = 2
PATIENCE_S = 100.0


def ask(url: str, question: str) -> str:
    """What became of a question: its status, or the error."""
    try:
        body = {"question": question}
        return str(httpx.post(f"{url}/v1/answers", json=body, verify=False, timeout=60).status_code)
    except httpx.HTTPError as error:
        return type(error).__name__


@contextmanager
def asking(url: str) -> Iterator[list[str]]:
    """Clients that ask without end; what became of each request."""
    outcomes: list[str] = []
    ended = threading.Event()

    def client() -> None:
        while not ended.is_set():
            outcomes.append(told := ask(url, CAST))
            # As people ask: the server starts and ends on these cores too.
            time.sleep(0.05 if told == "200" else 0.25)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for each in threads:
        each.start()
    try:
        yield outcomes
    finally:
        ended.set()
        for each in threads:
            each.join()


def wait_until(found: Callable[[], bool], job: subprocess.Popen[str]) -> None:
    """Wait until something is found while the job runs."""
    until = time.monotonic() + PATIENCE_S
    while not found():
        assert job.poll() is None and time.monotonic() < until
        time.sleep(0.05)


def listening(pid: int) -> dict[str, set[str]]:
    """The addresses that a process and those below it listen on, by their names."""
    found: dict[str, set[str]] = {}
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # one that ends meanwhile
            for each in process.net_connections("inet"):
                if each.status == psutil.CONN_LISTEN:
                    address = each.laddr.ip.removeprefix("::ffff:")
                    found.setdefault(process.name(), set()).add(address)
    return found


def name_of(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def own(pid: int) -> tuple[str, Path, int]:
    """The token of the Ray below a process, its folder, and who may look into that."""
    below = psutil.Process(pid).children(recursive=True)
    told = next(process.environ() for process in below if name_of(process) == "raylet")
    folder = Path(told["RAY_TMPDIR"])
    return told["RAY_AUTH_TOKEN"], folder, folder.stat().st_mode & 0o777


def test_the_job_serves_on_loopback_alone_and_answers_all_that_it_was_asked_when_it_is_terminated(
    sample_root: Path, tmp_path: Path
) -> None:
    """Also from a root that it may not write; a model holds one answer until the job stops."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    log = tmp_path / "s3%3A%2F%2Fbucket" / "log.jsonl"  # as below a folder that stands for a store
    root = Path(shutil.copytree(sample_root, tmp_path / "root"))
    # As a user's shell has it: what this run set for Rays of its own is no part of the job.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    with serve(Endpoint(script=answer_by_rules)) as endpoint:
        command = [
            "timeout", "--foreground", "300",  # also where this process is killed
            sys.executable, "-m", "srrag", "serve", f"root={root}", f"port={port}", f"log={log}",
            "pipeline=bm25", "engine=http", "engine.model=m", f"engine.base_url={endpoint.url}",
            "engine.api_key_env=null", f"completions={tmp_path / 'completions'}",
        ]  # fmt: skip
        with read_only(root), asking(url) as outcomes, ThreadPoolExecutor(1) as last_one:
            job = start(command, env=kept)
            assert job.stdout is not None and job.stderr is not None
            said, held = [], None
            for line in job.stderr:
                said.append(line)
                if line.startswith("log:"):
                    found, secrets = listening(job.pid), own(job.pid)
                    wait_until(lambda: outcomes.count("200") > ENOUGH, job)
                    endpoint.hold_after = 0
                    held = last_one.submit(ask, url, "Does bed rest help acute low back pain?")
                    wait_until(lambda: endpoint.held > 0, job)
                    job.terminate()
                if line.startswith("stopping"):
                    endpoint.hold_after = sys.maxsize
            assert held is not None, said
            assert held.result() == "200"
            summary = json.loads(job.stdout.read().splitlines()[-1])
    assert job.wait() == 0, said
    assert summary["url"] == url and summary["pipelines"] == ["bm25"]
    assert {"gcs_server", "raylet"} < set(found) and len(found) >= 6
    assert all(map(is_loopback, set.union(*found.values()))), found
    token, folder, mode = secrets
    assert len(token) == 64 and mode == 0o700
    assert not folder.exists()
    assert f"log: {log}\n" in said, "the log stays on its node"
    assert not [line for line in said if line.startswith("INFO")], "Ray Serve is silent"
    first, last = outcomes.index("200"), len(outcomes) - outcomes[::-1].index("200")
    assert set(outcomes[first:last]) <= {"200", "503"}, "what was taken is answered"
    begun = outcomes[first : first + ENOUGH]
    assert begun.count("200") > ENOUGH - CLIENTS, "nobody says any more that it starts"
    # Whom the kernel has let in when the port closes it resets: one request of each client.
    after = outcomes[last:]
    cut = {"ReadError", "WriteError", "RemoteProtocolError"}
    assert set(after) <= {"503", "ConnectError", *cut}, "told, or refused"
    assert sum(each in cut for each in after) <= CLIENTS
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line.get("status") == 200 for line in lines) > outcomes.count("200")
    assert "ankle" not in log.read_text()
