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
import multiprocessing
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.endpoint import Endpoint, run
from tests.endpoint_script import answer_by_rules

REPOSITORY = Path(__file__).resolve().parents[1]
GRAPH = [f"stages.{name}=null" for name in ("vectors", "dense", "tokens", "units", "sparse")]
GRAPH += [f"stages.{name}=null" for name in ("windows", "entities", "communities")]
FACTS = 8
LIFETIME_S = 86_400.0


class NotedSlots(asyncio.Semaphore):
    """Places of an endpoint, which note when each was taken and left."""

    def __init__(self, places: int) -> None:
        super().__init__(places)
        self.changes: list[tuple[float, int]] = []

    async def __aenter__(self) -> None:
        """Take a place."""
        await super().__aenter__()
        self.changes.append((time.monotonic(), 1))

    async def __aexit__(self, *error: Any) -> None:
        """Leave it."""
        self.changes.append((time.monotonic(), -1))
        await super().__aexit__(*error)


class CountedEndpoint(Endpoint):
    """The endpoint of the tests, which counts the share of its places that is taken up."""

    def __post_init__(self) -> None:
        """Make the places."""
        super().__post_init__()
        self._slots = NotedSlots(self.slots)

    def counts(self) -> dict[str, Any]:
        """The figures since they were last asked for."""
        moments = [moment for moment, _ in self._slots.changes]
        steps = [step for _, step in self._slots.changes]
        self._slots.changes = []
        served, calls = list(itertools.accumulate(steps)), steps.count(-1)
        full = [n for n, count in enumerate(served) if count == self.slots]
        if not full:
            return {"calls": calls, "most": max(served, default=0)}
        first, last = full[0], full[-1] + 1
        busy = sum(served[n] * (moments[n + 1] - moments[n]) for n in range(first, last))
        seconds = moments[last] - moments[first]
        held = -sum(moment * step for moment, step in zip(moments, steps, strict=True))
        late = held / calls - self.latency_s
        share = busy / (self.slots * seconds) * self.latency_s / (self.latency_s + late)
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


def serve(port_file: Path, places: int, latency_s: float) -> None:
    """Listen on a free port until ended."""
    endpoint = CountedEndpoint(
        script=_answer, latency_s=latency_s, slots=places, lifetime_s=LIFETIME_S
    )
    asyncio.run(run(endpoint, 0, port_file, None))


@contextlib.contextmanager
def serving(folder: Path, places: int, latency_s: float) -> Iterator[str]:
    """Run the server as a process; yields its address."""
    port_file = folder / "port"
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(port_file, places, latency_s))
    process.start()
    try:
        while not port_file.exists():
            if not process.is_alive():
                raise RuntimeError("the server ended at once")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port_file.read_text()}"
    finally:
        process.terminate()
        process.join()


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
    with urllib.request.urlopen(url + "/counts") as response:
        figures: dict[str, Any] = json.load(response)
    return figures


def main() -> None:
    """Measure every profile and corpus."""
    parser = argparse.ArgumentParser(prog="python -m perf.calls")
    parser.add_argument("--places", type=int, default=64)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--profiles", nargs="+", default=["local", "ray"])
    parser.add_argument("--shared", type=Path, default=REPOSITORY.parent / "shared" / "data")
    options = parser.parse_args()
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
