"""`python -m perf.update GENERATOR`: what adding documents costs, as a share of building all anew.

The graph is one with planted topics, its chunks are the documents; facts are given, not extracted.
Prints one JSON object: seconds of processor time (one thread) by stage, of a build from nothing
and of an update by the last 1 % of the documents. Start-up and encoding are left out: vectors of
names are sums of random vectors of words. Beside them, how well the communities after the update
agree with the topics, and with those found from nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pyarrow as pa

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.schema import TRIPLES
from srrag.core.spec import content_id
from srrag.core.stage import Plan, Stage
from srrag.core.step import Function, Place, Step
from srrag.corpus.record import RawRecord
from srrag.graph import name_vectors
from srrag.graph.communities import read_communities
from srrag.graph.facts import entity_id
from srrag.runner.build import BuildJob
from srrag.runner.relation_builds import RelationBuilds
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store

LEFT_OUT = ("vectors", "dense", "tokens", "graph")


@dataclass(frozen=True, kw_only=True)
class GivenFacts(Step):
    """RAW → TRIPLES: a body lists its facts."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "body")
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Read the facts."""

        def run(batch: pa.Table) -> pa.Table:
            rows = []
            for raw in batch.to_pylist():
                ids = {"doc_id": raw["raw_id"], "unit_id": content_id(raw["raw_id"], "chunk")}
                for place, fact in enumerate(json.loads(raw["body"])["facts"]):
                    rows.append(
                        {
                            **dict(zip(_FACT, fact, strict=True)), **ids, "quote": "", "grade": "",
                            "fact_id": content_id(raw["raw_id"], str(place)), "confidence": 1.0,
                            "char_start": place, "char_end": place + 1, "reject": None,
                        }
                    )  # fmt: skip
            return pa.Table.from_pylist(rows, schema=TRIPLES)

        return run


_FACT = ("kind", "head", "head_type", "relation", "tail", "tail_type")


def documents(graph: dict[str, Any]) -> list[RawRecord]:
    """A document a chunk: its text, the relations whose head it describes, its entities' values."""
    node = {item["id"]: item for item in graph["nodes"]}
    facts = defaultdict(list)
    for head, relation, tail in graph["edges"]:
        one, other = node[head], node[tail]
        kind = "attribute" if other["label"] == "attribute" else "relation"
        if kind == "attribute":
            key, value = other["name"].split(": ")
        else:
            key, value = other["schema_type"], other["name"]
        facts[one["chunk"]].append((kind, one["name"], one["schema_type"], relation, value, key))
    for item in graph["nodes"]:
        if item["label"] == "entity":
            facts[item["chunk"]].append(("entity", item["name"], item["schema_type"], "", "", ""))
    return [
        RawRecord(
            name, name, "json",
            json.dumps({"title": name, "text": text, "facts": facts[name]}).encode(),
        )
        for name, text in graph["chunks"].items()
    ]  # fmt: skip


class Clock:
    """Seconds of processor time by stage, over one run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Count a block for a stage."""
        started = time.process_time()
        yield
        self.seconds[stage] += time.process_time() - started


@dataclass(frozen=True)
class TimedRunner(LocalRunner):
    """Runs stages one by one, so that each has its own time."""

    clock: Any = None
    """With `of`, the context of a stage's name."""

    def _run_stages(self, plan: Plan, store: Store, stages: Sequence[Stage], *rest: Any) -> None:
        with self.clock.of(" ".join(stage.name for stage in stages)):
            super()._run_stages(plan, store, stages, *rest)


class Names:
    """Random vectors of words in place of an encoder, whose seconds would hide all others."""

    dim = 384

    def __init__(self) -> None:
        self.words: dict[str, np.ndarray] = {}
        self.stage = ""
        self.seconds: dict[str, float] = defaultdict(float)
        """Of encoding, by stage."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit sums of a random vector a word: names that share words are near."""
        started = time.process_time()
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, name in enumerate(texts):
            for word in name.split():
                vectors[row] += self._vector(word)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        self.seconds[self.stage] += time.process_time() - started
        return vectors

    def _vector(self, word: str) -> np.ndarray:
        if word not in self.words:
            seed = int(content_id(word)[:8], 16)
            self.words[word] = np.random.default_rng(seed).standard_normal(self.dim, np.float32)
        return self.words[word]


@contextmanager
def timed(clock: Any, names: Names) -> Iterator[None]:
    """Time the builds, whose names and descriptions of communities get drawn vectors."""
    build = RelationBuilds.run

    def run_timed(self: RelationBuilds, stage: Stage, at: Place) -> Any:
        names.stage = stage.name
        with clock.of(stage.name):
            return build(self, stage, at)

    with (
        mock.patch.object(RelationBuilds, "run", run_timed),
        mock.patch.object(name_vectors, "load", lambda *_: names),
    ):
        yield


def plan_of(root: Path) -> Plan:
    """The plan of a graph without vectors, its facts given."""
    left_out = (f"stages.{name}=null" for name in LEFT_OUT)
    config = configure("build", [f"root={root}", "plan=graph", *left_out])
    plan = factory.plan(config, factory.make(config["corpus"], "corpus"))
    stages = [
        Stage("triples", GivenFacts(), ("raw",)) if stage.name == "triples" else stage
        for stage in plan.stages
    ]
    return Plan("raw", "given", stages)


def run(root: Path, records: Sequence[RawRecord], names: Names) -> dict[str, Any]:
    """Build or update; seconds by stage, and the figures of the builds."""
    clock, plan = Clock(), plan_of(root)
    names.seconds.clear()
    with clock.of("all"), timed(clock, names):
        job = BuildJob(Store(root), plan, TimedRunner(clock=clock))
        figures = job.run(records, Place(threads=1))["figures"]
    whole = clock.seconds.pop("all") - sum(names.seconds.values())
    stages = {name: value - names.seconds[name] for name, value in clock.seconds.items()}
    rest = whole - sum(stages.values())
    seconds = {**stages, "the rest": rest, "all": whole}
    return {"seconds": {name: round(value, 3) for name, value in seconds.items()}, **figures}


def agreement(root: Path, other: dict[str, Any]) -> float:
    """Adjusted Rand index of a root's communities with other groups, over what both group."""
    from sklearn.metrics import adjusted_rand_score

    found = communities(root)
    both = sorted(found.keys() & other.keys())
    return round(float(adjusted_rand_score([other[i] for i in both], [found[i] for i in both])), 4)


def communities(root: Path) -> dict[str, Any]:
    """The community of each node."""
    folder = Store(root).artifacts("default")["communities"]
    ids, found = read_communities(folder).to_pydict().values()
    return dict(zip(ids, found, strict=True))


def measure(graph: dict[str, Any], asked: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Build all but a few documents, which updates then add, and all documents at once."""
    records = documents(graph)
    random.Random(1).shuffle(records)
    step = max(1, round(asked.share * len(records)))
    first = len(records) - step * asked.updates
    names, now = Names(), scratch / "grown"
    before = run(now, records[:first], names)
    shutil.copytree(now, scratch / "before")
    updates = [run(now, records[: first + step * n], names) for n in range(1, asked.updates + 1)]
    once = run(scratch / "once", records, names)
    some = records[: first + step]
    again = [run(_fresh(scratch, "before"), some, names) for _ in range(asked.repeats - 1)]
    update, build = least([updates[0], *again]), [once]
    build += [run(_fresh(scratch), records, names) for _ in range(asked.repeats - 1)]
    topics = {
        entity_id(item["schema_type"], item["name"]): item["topic"]
        for item in graph["nodes"]
        if item["topic"] is not None
    }
    kept = set(communities(scratch / "before").values())
    return {
        "documents": len(records),
        "added_each_time": step,
        "once_update_share": {
            name: [value, update[name], round(update[name] / value, 4)]
            for name, value in least(build).items()
        },
        "entities": once["entities"],
        "communities": [item["communities"] for item in (before, *updates, once)],
        "tree": [item["tree"] for item in (before, *updates, once)],
        "nodes_in_communities_that_kept_their_id": round(
            sum(value in kept for value in communities(now).values()) / len(communities(now)), 4
        ),
        "ari_with_topics": {
            name: agreement(scratch / name, topics) for name in ("before", "grown", "once")
        },
        "ari_grown_with_once": agreement(now, communities(scratch / "once")),
    }


def _fresh(scratch: Path, before: str = "") -> Path:
    """Make an empty root, or a copy of another one."""
    root = scratch / "again"
    shutil.rmtree(root, ignore_errors=True)
    if before:
        shutil.copytree(scratch / before, root)
    return root


def least(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the least seconds of each stage over several runs; other load only adds to them."""
    found = {stage: min(run["seconds"][stage] for run in runs) for stage in runs[0]["seconds"]}
    total = sum(seconds for stage, seconds in found.items() if stage != "all")
    return {**found, "all": round(total, 3)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("generator", type=Path, help="script that writes a graph as JSON")
    parser.add_argument("--n", type=int, default=48_480, help="entities without attributes")
    parser.add_argument("--edge-factor", type=float, default=1.5)
    parser.add_argument("--attrs", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--share", type=float, default=0.01, help="of the documents, an update")
    parser.add_argument("--updates", type=int, default=1, help="one after the other")
    parser.add_argument("--repeats", type=int, default=1, help="the least of so many is told")
    parser.add_argument("--scratch", help="where to write; a temporary folder if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        path = Path(folder) / "graph.json"
        command = [
            sys.executable, str(arguments.generator), "--n", str(arguments.n), "--out", str(path),
            "--edge-factor", str(arguments.edge_factor), "--attrs", str(arguments.attrs),
            "--seed", str(arguments.seed),
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        graph = json.loads(path.read_text("utf-8"))
        print(json.dumps(measure(graph, arguments, Path(folder))))


if __name__ == "__main__":
    main()
