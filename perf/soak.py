"""A server under steady load for long, while new builds go live: memory, lost requests, versions.

    python -m perf.soak --minutes 20

The sample's documents are built, served and asked without a pause; `--builds` times a document is
added, and `srrag build` runs beside the server, which goes over to the new build by itself. Memory
is what each process has for itself (USS: mapped files of the build are not its own), and its growth
that of the median of the last fifth of the run over the fifth that follows the warm-up. The last
line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from perf.autoscaling import Record, drive, every
from srrag.config.compose import configure
from srrag.core.pipeline import build_version
from srrag.lab.measure.references import resource_path
from srrag.serve.configured import settings_of
from srrag.serve.ray.deployments import Cluster, served
from srrag.storage.store import Store

PORT = 8159
DOCUMENTS = "pkg://srrag/sample/documents"
NAMES = ("ServeReplica:srrag:srrag", "ProxyActor", "ServeController", "gcs_server", "raylet")
_SAMPLE_S = 5.0
_LIVE_S = 60.0
_ADDED = """# Trial {number} of wobble boards

Wobble board training reduced recurrent ankle sprains by {number} in a hundred players.
"""


@dataclass
class Memory:
    """What each process has for itself, in bytes at moments since the start."""

    began: float = field(default_factory=time.monotonic)
    seen: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))

    def look(self) -> None:
        """Note all of them."""
        for child in psutil.Process().children(recursive=True):
            try:
                told = " ".join(child.cmdline())
                name = next((name for name in NAMES if name in told), None)
                if name and not (name == "raylet" and "raylet/raylet" not in told):
                    at = time.monotonic() - self.began
                    self.seen[f"{name} {child.pid}"].append((at, child.memory_full_info().uss))
            except psutil.Error:
                continue

    def figures(self, warm_s: float) -> dict[str, dict[str, Any]]:
        """Of each process: megabytes over the run, and growth after the warm-up."""
        found = {}
        for name, points in self.seen.items():
            end = points[-1][0]
            span = (end - warm_s) / 5
            first = [b for at, b in points if warm_s <= at < warm_s + span]
            last = [b for at, b in points if at >= end - span]
            shown = [round(b / 2**20, 1) for _, b in points[:: max(1, len(points) // 12)]]
            growth = statistics.median(last) / statistics.median(first) - 1 if first else None
            found[name] = {"mb": shown, "growth": growth and round(growth, 4)}
        return found


def build(folder: Path) -> str:
    """Build the folder's documents by the command, in a process that gives way; the version."""
    command = [
        "nice", "-n", "5", sys.executable, "-m", "srrag", "build", f"root={folder}/R",
        "corpus=folder", f"corpus.path={folder}/documents",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return build_version(Store(folder / "R"), "default")


def renewed(folder: Path, times: int, seconds: float, record: Record) -> list[dict[str, float]]:
    """Add a document and build, some times in a span; when each new build gave its first answer."""
    found = []
    for number in range(1, times + 1):
        time.sleep(max(0.0, record.began + number * seconds / (times + 1) - time.monotonic()))
        path = folder / "documents" / "LAS" / f"added-{number}.md"
        path.write_text(_ADDED.format(number=number), "utf-8")
        began = time.monotonic()
        version = build(folder)
        built = time.monotonic()
        while version not in record.versions and time.monotonic() < built + _LIVE_S:
            time.sleep(0.05)
        found.append({
            "build_s": round(built - began, 1),
            "live_after_s": round(time.monotonic() - built, 1),
        })  # fmt: skip
        if version not in record.versions:
            raise RuntimeError(f"build {number} did not go live")
    return found


def figures(record: Record, seconds: float) -> dict[str, Any]:
    """Counts and times of all requests."""
    times = sorted(s for _, s, how in record.requests if how == "answered")
    return {
        "counts": dict(Counter(how for _, _, how in record.requests)),
        "answers_a_second": round(len(times) / seconds, 1),
        "p50_s": round(statistics.median(times), 4),
        "p95_s": round(times[int(0.95 * (len(times) - 1))], 4),
        "versions": list(record.versions.values()),
        **({"reasons": dict(record.reasons.most_common(8))} if record.reasons else {}),
    }


def soak(folder: Path, overrides: Sequence[str], given: argparse.Namespace) -> Mapping[str, Any]:
    """Serve the folder's build, ask, and renew it meanwhile."""
    command = shlex.join(["srrag", "serve", *overrides])
    told = settings_of({**configure("serve", overrides), "command": command})
    seconds, builds = 60 * given.minutes, list[dict[str, float]]()
    with served(told, Cluster(num_cpus=8)) as url:
        record, memory = Record(), Memory()
        builder = threading.Thread(
            target=lambda: builds.extend(renewed(folder, given.builds, seconds, record))
        )
        builder.start()
        with every(_SAMPLE_S, memory.look):
            asyncio.run(drive(url, _steady(given.clients, seconds), given.clients, record))
        builder.join()
    if len(builds) < given.builds:
        raise RuntimeError("a build did not go live")
    warm_s = min(120.0, seconds / 5)
    return {**figures(record, seconds), "builds": builds, "memory": memory.figures(warm_s)}


def _steady(clients: int, seconds: float) -> Any:
    return lambda second: clients if second < seconds else 0


def main() -> None:
    """Run one soak."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--builds", type=int, default=5)
    parser.add_argument("overrides", nargs="*", help="of `srrag serve`, such as pipeline=bm25")
    given = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory(prefix="srrag-soak-") as name:
        folder = Path(name)
        shutil.copytree(resource_path(DOCUMENTS), folder / "documents")
        build(folder)
        overrides = [f"root={folder}/R", f"port={PORT}", "pipeline=bm25", *given.overrides]
        found = soak(folder, overrides, given)
    print(json.dumps({"clients": given.clients, **found, "load_average": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
