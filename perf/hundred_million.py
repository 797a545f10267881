"""`python -m perf.hundred_million`: how a root grows, from ten thousand windows upwards.

Documents, windows, vectors, token vectors and facts are drawn at random, part by part (nothing is
held whole), and go through the runner and the builds of the default plan as a corpus would. Each
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
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from perf.update import Names
from srrag.algo.maxsim import maxsim
from srrag.bind import bind
from srrag.config import factory
from srrag.config.compose import configure
from srrag.corpus.record import RawRecord
from srrag.graph import communities as organize
from srrag.ids import content_id
from srrag.index.dense_search import DenseIndex
from srrag.index.graph_reader import GraphIndex, GraphQuestion
from srrag.index.sparse import SparseIndex
from srrag.index.tokens import TokenIndex
from srrag.runner.build import BuildJob
from srrag.runner.local import LocalRunner
from srrag.runner.relation_builds import RelationBuilds
from srrag.schema import DOCUMENTS, TRIPLES, UNITS, VECTORS
from srrag.stage import Plan, Stage
from srrag.step import Function, Place, Step
from srrag.storage.store import Store
from srrag.units import Units

WINDOWS_PER_DOCUMENT, WORDS_PER_WINDOW, FACTS_PER_WINDOW = 4, 60, 2
DIMENSION, TOPICS, VOCABULARY = 384, 2000, 500_000
GRAPH = ("communities", "tree", "graph")
LEFT_OUT = ("chunks", "parsed", "titles", "notices", "standing", "schema_growth")
SAMPLE_S = 0.02
QUESTIONS, DEPTH, RERANKED = 60, 100, 100
SHOWN = 10_000_000, 100_000_000
MARKS = "<!-- growth -->", "<!-- end of growth -->"
GOALS = {"memory_gb": 4.0, "open_s": 5.0, "query_ratio": 3.0, "update_share": 0.02}


def words_of(ranks: np.ndarray) -> list[str]:
    """Texts (rows,) of words by their ranks (rows, words): a word is its rank in base 26."""
    flat = ranks.ravel().astype(np.int64)
    letters = np.empty((len(flat), 5), np.uint8)
    for place in range(5):
        letters[:, place] = 97 + flat % 26
        flat //= 26
    letters[:, 4] = 113  # no word is a stop word, or ends in what a stemmer cuts off
    spaced = np.concatenate([letters, np.full((len(letters), 1), 32, np.uint8)], axis=1)
    width = 6 * ranks.shape[1]
    text = spaced.tobytes().decode()
    return [text[start : start + width - 1] for start in range(0, len(text), width)]


def zipf(draw: np.random.Generator, shape: tuple[int, int], least: int = 1) -> np.ndarray:
    """Ranks with probability near 1 / rank, from `least` to the vocabulary's end."""
    found: np.ndarray = np.exp(draw.uniform(math.log(least), math.log(VOCABULARY), shape))
    return found.astype(np.int64)


def drawn(key: str) -> np.random.Generator:
    """The generator of a row: the same for the same key, in any batch."""
    return np.random.default_rng(int(content_id(key)[:16], 16))


def centres() -> np.ndarray:
    """The topics' centres, unit vectors (topics, dimension), the same in every process."""
    found = np.random.default_rng(0).standard_normal((TOPICS, DIMENSION), np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def about(draw: np.random.Generator, middles: np.ndarray, rows: int) -> np.ndarray:
    """Unit vectors about random topics, float32 (rows, dimension)."""
    noise = draw.standard_normal((rows, DIMENSION), np.float32) / math.sqrt(DIMENSION)
    found = middles[draw.integers(0, TOPICS, rows)] + noise
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found, np.float32)


def packed(matrix: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The rows of a matrix as binary values."""
    return pa.array([row.tobytes() for row in np.ascontiguousarray(matrix)], kind)


@dataclass(frozen=True, kw_only=True)
class DrawnDocuments(Step):
    """RAW → DOCUMENTS with titles."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "source", "source_id")
    writes: ClassVar[pa.Schema] = DOCUMENTS

    def open(self, at: Place) -> Function:
        """Draw titles, grades and years."""

        def run(batch: pa.Table) -> pa.Table:
            rows = len(batch)
            draw = drawn(batch["raw_id"][0].as_py())
            same = {name: pa.repeat("", rows) for name in DOCUMENTS.names}
            columns = {
                **same,
                "doc_id": batch["raw_id"], "source": batch["source"],
                "source_id": batch["source_id"], "pmid": batch["source_id"],
                "title": pa.array(words_of(zipf(draw, (rows, 8)))),
                "grade": pa.array(draw.choice(list("ABCDE"), rows, p=[0.05, 0.1, 0.15, 0.1, 0.6])),
                "year": pa.array(draw.integers(1980, 2025, rows), pa.int32()),
                "metadata": pa.repeat("{}", rows), "reject": _none(DOCUMENTS, rows),
            }  # fmt: skip
            return pa.table([columns[name] for name in DOCUMENTS.names], schema=DOCUMENTS)

        return run


@dataclass(frozen=True, kw_only=True)
class DrawnWindows(Step):
    """DOCUMENTS → four windows each, of words as frequent as Zipf has them."""

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "grade")
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Draw texts."""

        def run(batch: pa.Table) -> pa.Table:
            owners = [d for d in batch["doc_id"].to_pylist() for _ in range(WINDOWS_PER_DOCUMENT)]
            rows, draw = len(owners), drawn(owners[0])
            texts = words_of(zipf(draw, (rows, WORDS_PER_WINDOW)))
            order = np.tile(np.arange(WINDOWS_PER_DOCUMENT, dtype=np.int32), len(batch))
            start = order * (6 * WORDS_PER_WINDOW)
            ids = [content_id(d, str(n)) for d, n in zip(owners, order, strict=True)]
            columns = {
                "unit_id": pa.array(ids), "doc_id": pa.array(owners),
                "view": pa.repeat("window", rows), "parent_id": pa.array(ids),
                "order": pa.array(order), "section": pa.repeat("", rows),
                "char_start": pa.array(start),
                "char_end": pa.array(start + np.int32(6 * WORDS_PER_WINDOW - 1)),
                "text": pa.array(texts),
                "num_tokens": pa.array(np.full(rows, 2 * WORDS_PER_WINDOW, np.int32)),
                "grade": pa.array(np.repeat(batch["grade"].to_numpy(), WINDOWS_PER_DOCUMENT)),
                "repairs": pa.array(np.zeros(rows, np.int32)), "reject": _none(UNITS, rows),
            }  # fmt: skip
            return pa.table([columns[name] for name in UNITS.names], schema=UNITS)

        return run


@dataclass(frozen=True, kw_only=True)
class DrawnVectors(Step):
    """UNITS → VECTORS about the topics' centres, with a few token vectors each."""

    tokens: int = 4
    reads: ClassVar[tuple[str, ...]] = ("unit_id",)
    writes: ClassVar[pa.Schema] = VECTORS

    def open(self, at: Place) -> Function:
        """Draw vectors."""
        middles = centres()

        def run(batch: pa.Table) -> pa.Table:
            rows, draw = len(batch), drawn(batch["unit_id"][0].as_py())
            vectors = about(draw, middles, rows)
            values = draw.integers(-127, 128, (rows, self.tokens * DIMENSION), np.int8)
            scales = np.full((rows, self.tokens), 1 / 1500, np.float16)
            columns = [
                batch["unit_id"], pa.array(draw.integers(0, 2**63, rows).astype(np.uint64)),
                packed(vectors, pa.binary()), packed(values, pa.large_binary()),
                packed(scales, pa.binary()), pa.repeat(False, rows), _none(VECTORS, rows),
            ]  # fmt: skip
            return pa.table(columns, schema=VECTORS)

        return run


@dataclass(frozen=True, kw_only=True)
class DrawnFacts(Step):
    """UNITS → TRIPLES: facts of a topic's concepts, of which there are as many as `windows` / 4."""

    windows: int
    reads: ClassVar[tuple[str, ...]] = ("unit_id", "doc_id", "char_start", "grade")
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Draw facts, the concepts of a topic about as often as each other."""

        def run(batch: pa.Table) -> pa.Table:
            rows = FACTS_PER_WINDOW * len(batch)
            draw = drawn("facts" + batch["unit_id"][0].as_py())
            head = draw.integers(0, max(40, self.windows // 4), rows)
            near = head - head % 40 + draw.integers(0, 40, rows)  # topics of 40
            far = draw.integers(0, max(40, self.windows // 4), rows)
            tail = np.where(draw.random(rows) < 0.8, near, far)
            owner = pa.array(np.repeat(np.arange(len(batch)), FACTS_PER_WINDOW))
            start = batch["char_start"].take(owner).combine_chunks()
            ids = [content_id(str(n)) for n in draw.integers(0, 2**63, rows)]
            columns = {
                "fact_id": pa.array(ids), "doc_id": batch["doc_id"].take(owner),
                "unit_id": batch["unit_id"].take(owner), "kind": pa.repeat("relation", rows),
                "head": pa.array(concepts(head)), "head_type": pa.repeat("intervention", rows),
                "relation": pa.repeat("improves", rows), "tail": pa.array(concepts(tail)),
                "tail_type": pa.repeat("outcome", rows), "char_start": start,
                "char_end": pa.array(start.to_numpy() + np.int32(5)),
                "quote": pa.repeat("", rows), "confidence": pa.array(np.ones(rows, np.float32)),
                "grade": batch["grade"].take(owner), "reject": _none(TRIPLES, rows),
            }  # fmt: skip
            return pa.table([columns[name] for name in TRIPLES.names], schema=TRIPLES)

        return run


def concepts(numbers: np.ndarray) -> list[str]:
    """A name of two words for each number: one of its topic, one of its own."""
    return words_of(np.stack([numbers // 40 + 1000, numbers + 30_000], axis=1))


def _none(schema: pa.Schema, rows: int) -> pa.Array:
    return pa.nulls(rows, schema.field("reject").type)


def plan_of(root: Path, windows: int, tokens: int, graph: bool) -> Plan:
    """The default plan with its steps drawn, and without titles' vectors."""
    gone = LEFT_OUT if graph else (*LEFT_OUT, *GRAPH)
    overrides = [f"root={root}", "corpus.title=none", *(f"stages.{name}=null" for name in gone)]
    overrides += ["stages.documents.inputs=[raw]", "stages.windows.inputs=[documents]"]
    overrides += ["stages.triples.inputs=[windows]"]
    config = configure("build", overrides)
    plan = factory.plan(config, factory.make(config["corpus"], "corpus"))
    steps = {
        "documents": DrawnDocuments(), "windows": DrawnWindows(),
        "vectors": DrawnVectors(tokens=tokens), "triples": DrawnFacts(windows=windows),
    }  # fmt: skip
    stages = [Stage(s.name, steps[s.name], s.inputs) if s.name in steps else s for s in plan.stages]
    return Plan("raw", "drawn", stages)


def records(first: int, last: int) -> Iterator[RawRecord]:
    """Records by number."""
    for number in range(first, last):
        yield RawRecord(f"drawn:{number}", str(number), "json", str(number).encode())


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


@dataclass(frozen=True)
class MeteredRunner(LocalRunner):
    """Runs stages one by one and measures each."""

    meter: Meter | None = None

    def _run_stages(self, plan: Plan, store: Store, stages: Sequence[Stage], *rest: Any) -> None:
        assert self.meter is not None
        with self.meter.of(" ".join(stage.name for stage in stages)):
            super()._run_stages(plan, store, stages, *rest)


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    """Measure the builds; names get drawn vectors."""
    build, encode = RelationBuilds.run, organize.encode_names

    def run(self: RelationBuilds, stage: Stage, at: Place) -> Any:
        with meter.of(stage.name):
            return build(self, stage, at)

    RelationBuilds.run = run  # type: ignore[method-assign]
    organize.encode_names = Names().encode  # type: ignore[assignment]
    try:
        yield
    finally:
        RelationBuilds.run = build  # type: ignore[method-assign]
        organize.encode_names = encode


def built(root: Path, plan: Plan, documents: int) -> dict[str, Any]:
    """Build, or update, and return the costs by stage."""
    meter = Meter(root)
    job = BuildJob(Store(root), plan, MeteredRunner(threads=1, meter=meter))
    with metered(meter), meter.of("all"):
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
    told = page.read_text("utf-8")
    if not all(mark in told for mark in MARKS):
        raise ValueError(f"{page} has no {' … '.join(MARKS)}")
    pattern = re.compile(f"{re.escape(MARKS[0])}.*{re.escape(MARKS[1])}", re.DOTALL)
    page.write_text(pattern.sub(lambda _: f"{MARKS[0]}\n{text}\n{MARKS[1]}", told), "utf-8")


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
