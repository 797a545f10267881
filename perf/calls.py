"""`python -m perf.calls`: how much of an endpoint's capacity extraction takes up.

A local endpoint, a process of its own, serves 64 calls at a time in 1 s each; the passages of
shared/data/rehab are extracted from, as documents and as one long document, by each profile. The
share is the seconds of service between the first and the last moment at which all places were
taken, over places × seconds between the two: before lies the start, behind it the tail. By how much
the endpoint itself was late with an answer (`late_s`, on average) counts as no service. Prints one
JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

from tests.endpoint_script import answer_by_rules

REPOSITORY = Path(__file__).resolve().parents[1]
GRAPH = [f"stages.{name}=null" for name in ("vectors", "dense", "tokens", "units", "sparse")]
GRAPH += [f"stages.{name}=null" for name in ("windows", "entities", "communities")]
FACTS = 8


@dataclass
class Server:
    """Serves `places` calls at a time, and notes how many were served at each change."""

    places: int
    latency_s: float
    changes: list[tuple[float, int]] = field(default_factory=list)
    late_s: float = 0.0
    _serving: int = 0

    def __post_init__(self) -> None:
        """Make the places."""
        self._free = asyncio.Semaphore(self.places)

    async def chat(self, http: web.Request) -> web.Response:
        """Answer a chat request."""
        request = await http.json()
        answer = _answer(request)
        async with self._free:
            self._note(1)
            due = asyncio.get_running_loop().time() + self.latency_s
            await asyncio.sleep(self.latency_s)
            self.late_s += asyncio.get_running_loop().time() - due
            self._note(-1)
        words = sum(len(turn["content"]) for turn in request["messages"]) // 4
        return web.json_response(
            {
                "choices": [{"message": {"content": answer}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": words, "completion_tokens": len(answer) // 4},
            }
        )

    async def figures(self, http: web.Request) -> web.Response:
        """The figures since they were last asked for."""
        found = self._figures()
        self.changes, self.late_s = [], 0.0
        return web.json_response(found)

    def _note(self, step: int) -> None:
        self._serving += step
        self.changes.append((time.monotonic(), step))

    def _figures(self) -> dict[str, Any]:
        moments = [moment for moment, _ in self.changes]
        served = list(itertools.accumulate(step for _, step in self.changes))
        full = [n for n, count in enumerate(served) if count == self.places]
        calls = sum(step < 0 for _, step in self.changes)
        if not full:
            return {"calls": calls, "most": max(served, default=0)}
        first, last = full[0], full[-1] + 1
        busy = sum(served[n] * (moments[n + 1] - moments[n]) for n in range(first, last))
        seconds = moments[last] - moments[first]
        late = self.late_s / calls
        share = busy / (self.places * seconds) * self.latency_s / (self.latency_s + late)
        return {
            "share": round(share, 4),
            "calls": calls,
            "seconds": round(seconds, 2),
            "late_s": round(late, 4),
        }


def _answer(request: dict[str, Any]) -> str:
    """By rules, but for facts: a few sentences of the passage, as rules take long for an answer."""
    document = request["messages"][1]["content"].partition("<document>\n")[2]
    if not document:
        return answer_by_rules(request)
    lines = [
        f"{n} Outcome: {' '.join(sentence.split()[1:6])[:200] or 'it'} @{n}"
        for n, sentence in enumerate(document.split("\n")[1 : FACTS + 1], 1)
    ]
    return json.dumps({"entities": lines, "relations": [], "findings": [], "proposals": []})


def serve(server: Server, port_file: Path) -> None:
    """Listen on a free port until killed."""

    async def live() -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", server.chat)
        app.router.add_get("/figures", server.figures)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        port_file.write_text(str(runner.addresses[0][1]))
        await asyncio.Event().wait()

    asyncio.run(live())


@contextlib.contextmanager
def serving(folder: Path, places: int, latency_s: float) -> Iterator[str]:
    """Run the server as a process; yields its address."""
    port_file = folder / "port"
    options = [f"--places={places}", f"--latency={latency_s}", f"--serve={port_file}"]
    process = subprocess.Popen([sys.executable, "-m", "perf.calls", *options], cwd=REPOSITORY)
    try:
        while not (port_file.exists() and port_file.read_text()):
            if process.poll() is not None:
                raise RuntimeError("the server ended at once")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port_file.read_text()}"
    finally:
        process.kill()
        process.wait()


def write_corpora(shared: Path, folder: Path) -> dict[str, Path]:
    """The passages as graded documents, and all of them as sections of one."""
    lines = (shared / "rehab" / "corpus.jsonl").read_text("utf-8").splitlines()
    passages = [json.loads(line) for line in lines]
    documents = [{"id": row["_id"], "text": row["text"], "grade": "E"} for row in passages]
    sections = [f"## Part {n}\n\n{row['text']}" for n, row in enumerate(passages)]
    long = [{"id": "long", "text": "\n\n".join(sections), "grade": "E"}]
    corpora = {}
    for name, rows in (("documents", documents), ("one_long_document", long)):
        corpora[name] = folder / f"{name}.jsonl"
        corpora[name].write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return corpora


def measure(url: str, corpus: Path, root: Path, profile: str, places: int) -> dict[str, Any]:
    """Build once and ask the server what it saw; adds the processor time of the build."""
    arguments = [
        "build", f"profile={profile}", "corpus=jsonl", f"corpus.path={corpus}", f"root={root}",
        "engine=http", "engine.model=bench", f"engine.base_url={url}/v1",
        f"engine.concurrency={places}", *GRAPH,
    ]  # fmt: skip
    process = psutil.Popen(
        [sys.executable, "-m", "srrag", *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, stderr = process.communicate()
    if process.returncode:
        raise RuntimeError(stderr.decode()[-2000:])
    with urllib.request.urlopen(url + "/figures") as response:
        figures: dict[str, Any] = json.load(response)
    return figures


def main() -> None:
    """Measure every profile and corpus."""
    parser = argparse.ArgumentParser(prog="python -m perf.calls")
    parser.add_argument("--places", type=int, default=64)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--profiles", nargs="+", default=["local", "ray"])
    parser.add_argument("--shared", type=Path, default=REPOSITORY.parent / "shared" / "data")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Server(options.places, options.latency), options.serve)
        return
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as temporary,
        serving(Path(temporary), options.places, options.latency) as url,
    ):
        corpora = write_corpora(options.shared, Path(temporary))
        for profile in options.profiles:
            for name, corpus in corpora.items():
                root = Path(temporary) / f"{profile}-{name}"
                found[f"{profile} {name}"] = measure(url, corpus, root, profile, options.places)
                print(f"{profile} {name}: {found[f'{profile} {name}']}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
