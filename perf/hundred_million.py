"""`python -m perf.hundred_million`: how a root grows, from ten thousand windows upwards.

Documents, windows, vectors, token vectors and facts are drawn at random, part by part (nothing is
held whole), and go through the runner and the builds of a plan as a corpus would. Each
size is built, opened in a new process, asked, and then updated by 1 % more documents. Prints one
JSON object: by size and stage CPU seconds, peak private memory and bytes written, the share of
them that the update writes again; CPU seconds to open; p50 milliseconds a question by channel.
Then growth exponents, fitted on all sizes but the largest and tested on it, and what follows for 10
and 100 million windows. `--page docs/scale.md` writes the tables between the marks of that page.

Token vectors are few (`--tokens` a window; PubMed has some 110), as is disk. The graph is built up
to `--graph-rows` windows, its names with drawn vectors: encoding is no part of this.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from perf.drawn_corpus import (
    WINDOWS_PER_DOCUMENT,
    about,
    centres,
    concepts,
    plan_of,
    records,
    words_of,
    zipf,
)
from perf.scale import replaced
from perf.update import Names, TimedRunner, timed
from srrag.algo.maxsim import maxsim
from srrag.core.pipeline import bind
from srrag.core.stage import Plan
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.index.graph_reader import GraphIndex, GraphQuestion
from srrag.index.opened import DenseIndex
from srrag.index.sparse import SparseIndex
from srrag.index.tokens import TokenIndex
from srrag.runner.build import BuildJob
from srrag.storage.store import Store

SAMPLE_S = 0.02
QUESTIONS, DEPTH, RERANKED = 60, 100, 100
SHOWN = 10_000_000, 100_000_000
MARKS = "<!-- growth -->", "<!-- end of growth -->"


class Meter:
    """CPU seconds, peak private memory and new bytes of each stage."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.costs: dict[str, dict[str, float]] = {}
        self._known: set[int] = set()
        self.written("")

    def written(self, stage: str) -> int:
        """Bytes of files below a stage that were not there before; links are no new bytes."""
        found = 0
        for file in (self.root / "stages" / stage).rglob("*"):
            state = file.lstat()
            if file.is_file() and state.st_ino not in self._known:
                self._known.add(state.st_ino)
                found += state.st_size
        return found

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Measure a block."""
        started, stop = time.process_time(), threading.Event()
        peak = [private_bytes()]

        def watch() -> None:
            while not stop.wait(SAMPLE_S):
                peak[0] = max(peak[0], private_bytes())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        yield
        stop.set()
        thread.join()
        cost = {
            "cpu_s": round(time.process_time() - started, 2),
            "peak_gb": round(peak[0] / 1e9, 3),
            "mb": round(self.written(stage) / 1e6, 3),
        }
        self.costs[stage] = cost
        print(f"{stage}: {cost}", file=sys.stderr, flush=True)


def private_bytes() -> int:
    """Bytes of this process that no file backs."""
    text = Path("/proc/self/status").read_text("ascii")
    return 1024 * int(text.partition("RssAnon:")[2].split(maxsplit=1)[0])


def built(root: Path, plan: Plan, documents: int) -> dict[str, Any]:
    """Build, or update, and return the costs by stage."""
    meter = Meter(root)
    job = BuildJob(Store(root), plan, TimedRunner(clock=meter))
    with timed(meter, Names()), meter.of("all"):
        job.run(records(0, documents), Place(threads=1))
    whole = meter.costs["all"]
    whole["mb"] = sum(cost["mb"] for cost in meter.costs.values())
    return meter.costs


def opened(root: Path) -> dict[str, Any]:
    """CPU seconds until the indexes can be asked, and the p50 of a question by channel."""
    started, wall = time.process_time(), time.perf_counter()
    store = Store(root)
    held = [name for name in ("units", "sparse", "dense", "tokens", "graph")
            if name in store.artifacts("default")]  # fmt: skip
    at = bind(store, "default", held, Place())
    units, words = Units(at.artifact("units")), SparseIndex(at.artifact("sparse"))
    dense, tokens = DenseIndex(at.artifact("dense")), TokenIndex(at.artifact("tokens"))
    graph = GraphIndex(at.artifact("graph")) if "graph" in held else None
    found: dict[str, Any] = {
        "open_cpu_s": round(time.process_time() - started, 2),
        "open_wall_s": round(time.perf_counter() - wall, 2),
        "open_private_gb": round(private_bytes() / 1e9, 3),
    }
    draw, middles = np.random.default_rng(7), centres()
    total = len(units)

    def rerank() -> None:
        rows = draw.integers(0, total, RERANKED)
        values, scales, offsets = tokens.take(units.ids(rows).to_pylist())
        maxsim(about(draw, middles, 12), values, offsets, scales)

    def by_graph() -> None:
        assert graph is not None
        vector = about(draw, middles, 1).tobytes()
        concept = concepts(draw.integers(0, max(40, total // 4), 1))[0]
        graph.search(GraphQuestion(f"does {concept} help", vector, vector, vector), DEPTH)

    calls: dict[str, Callable[[], Any]] = {
        "sparse": lambda: words.search(words_of(zipf(draw, (1, 8), 20)), DEPTH),
        "dense": lambda: dense.search(about(draw, middles, 1), DEPTH),
        "tokens": rerank,
        "units": lambda: units.take(units.ids(draw.integers(0, total, DEPTH)).to_pylist()),
        **({"graph": by_graph} if graph else {}),
    }
    found["query_ms"] = {name: p50(call) for name, call in calls.items()}
    found["query_private_gb"] = round(private_bytes() / 1e9, 3)
    return found


def p50(call: Callable[[], Any]) -> float:
    """The median CPU milliseconds of a call, after a few that read the files."""
    taken = []
    for number in range(QUESTIONS + 10):
        started = time.process_time()
        call()
        if number >= 10:
            taken.append(1000 * (time.process_time() - started))
    return round(float(np.median(taken)), 3)


def measured(windows: int, tokens: int, graph: bool, scratch: Path) -> dict[str, Any]:
    """One size: build, open and ask in a new process, update by 1 %."""
    root = scratch / "root"
    documents = windows // WINDOWS_PER_DOCUMENT
    plan = plan_of(root, windows, tokens, graph)
    first = built(root, plan, documents)
    command = [sys.executable, "-m", "perf.hundred_million", "--ask", str(root)]
    asked = json.loads(subprocess.check_output(command, text=True))
    again = built(root, plan, documents + max(1, documents // 100))
    share = {
        name: round(again[name]["mb"] / max(cost["mb"], 1e-9), 4)
        for name, cost in first.items() if name in again
    }  # fmt: skip
    return {
        "windows": windows, "build": first, **asked, "update_cpu_s": again["all"]["cpu_s"],
        "update": again, "update_share": share,
    }  # fmt: skip


def exponent(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """The least-squares line of the logarithms: (exponent, logarithm at size 1)."""
    slope, start = np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-6)), 1)
    return float(slope), float(start)


def series_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """What grows, by size: CPU seconds and peak memory of each stage, opening, questions."""
    found: dict[str, dict[int, float]] = {}
    for run in runs:
        size = run["windows"]
        stages = {name: cost for name, cost in run["build"].items() if name != "all"}
        for stage, cost in stages.items():  # of all stages, the largest run has fewer
            found.setdefault(f"cpu_s {stage}", {})[size] = cost["cpu_s"]
            found.setdefault(f"peak_gb {stage}", {})[size] = cost["peak_gb"]
        found.setdefault("open_cpu_s", {})[size] = run["open_cpu_s"]
        for channel, value in run["query_ms"].items():
            found.setdefault(f"query_ms {channel}", {})[size] = value
    return found


def growth(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Exponents of what grows, their error on the largest size, and what they say of more."""
    found = {}
    for name, values in series_of(runs).items():
        sizes = sorted(values)
        if len(sizes) < 3:
            continue
        slope, start = exponent(sizes[:-1], [values[size] for size in sizes[:-1]])
        foretold = math.exp(start + slope * math.log(sizes[-1]))
        # From the last two sizes: fixed costs, which the small ones are made of, count least.
        last, begin = exponent(sizes[-2:], [values[size] for size in sizes[-2:]])
        found[name] = {
            "exponent": round(slope, 2), "of_last_two": round(last, 2),
            "foretold_over_measured": round(foretold / max(values[sizes[-1]], 1e-6), 2),
            **{str(n): round(math.exp(begin + last * math.log(n)), 3) for n in SHOWN},
        }  # fmt: skip
    return found


def tables(runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: what each stage takes at the largest size, and how all grows."""
    largest = max(runs, key=lambda run: run["windows"])
    grown = growth(runs)
    lines = [
        f"At {largest['windows']:,} windows:", "",
        "| stage | CPU s | peak GB | MB | update of 1 %: share of the bytes | exponent "
        "| told / found | CPU hours at 100 M | peak GB at 100 M |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for stage, cost in largest["build"].items():
        cpu, peak = (grown.get(f"{kind} {stage}", {}) for kind in ("cpu_s", "peak_gb"))
        hours = f"{cpu['100000000'] / 3600:,.1f}" if cpu else ""
        gb = f"{peak['100000000']:.1f}" if peak else ""
        lines.append(
            f"| {stage} | {cost['cpu_s']:.1f} | {cost['peak_gb']:.2f} | {cost['mb']:,.1f} "
            f"| {largest['update_share'].get(stage, 0):.3f} | {cpu.get('of_last_two', '')} "
            f"| {cpu.get('foretold_over_measured', '')} | {hours} | {gb} |"
        )
    sizes = [run["windows"] for run in runs]
    lines += ["", "| | " + " | ".join(f"{n:,}" for n in sizes) + " | told / found | 10 M | 100 M |"]
    lines.append("|---" * (len(sizes) + 4) + "|")
    for name, values in series_of(runs).items():
        if name.startswith(("open", "query")):
            row = grown.get(name, {})
            cells = [f"{values[n]:.2f}" if n in values else "" for n in sizes]
            cells += [str(row.get("foretold_over_measured", ""))]
            cells += [f"{row[str(n)]:.1f}" if row else "" for n in SHOWN]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_page(page: Path, text: str) -> None:
    """Put the tables between the marks of a page; raises ValueError if it has none."""
    page.write_text(replaced(page.read_text("utf-8"), MARKS, text), "utf-8")


def main() -> None:
    """Measure each size in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [10_000, 100_000, 1_000_000]
    parser.add_argument("--windows", type=int, nargs="+", default=sizes)
    parser.add_argument("--tokens", type=int, default=2, help="token vectors a window")
    parser.add_argument("--graph-rows", type=int, default=100_000, help="most windows with a graph")
    parser.add_argument("--scratch", help="where to write; a temporary folder if not given")
    parser.add_argument("--log", type=Path, help="JSON lines of runs: appended to, and read")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        print(json.dumps(opened(arguments.ask)))
        return
    if arguments.one:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            (windows,) = arguments.windows
            graph = windows <= arguments.graph_rows
            out = sys.stdout
            sys.stdout = sys.stderr  # the runner says there what it does
            found = measured(windows, arguments.tokens, graph, Path(folder))
            print(json.dumps(found), file=out)
        return
    runs = []
    if arguments.log and arguments.log.exists():
        runs = [json.loads(line) for line in arguments.log.read_text("utf-8").splitlines()]
    for windows in arguments.windows:
        command = [sys.executable, "-m", "perf.hundred_million", "--one", "--windows", str(windows)]
        command += ["--tokens", str(arguments.tokens), "--graph-rows", str(arguments.graph_rows)]
        command += ["--scratch", arguments.scratch] if arguments.scratch else []
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        line = subprocess.check_output(command, text=True, env=one_thread)
        runs = [run for run in runs if run["windows"] != windows] + [json.loads(line)]
        if arguments.log:
            arguments.log.write_text("".join(f"{json.dumps(run)}\n" for run in runs), "utf-8")
    runs.sort(key=lambda run: run["windows"])
    print(json.dumps({"runs": runs, "growth": growth(runs)}))
    if arguments.page:
        write_page(arguments.page, tables(runs))


if __name__ == "__main__":
    main()
