"""Communities: what Leiden finds, what the merges make of it, and their seconds.

    python -m perf.communities ../shared/bench/gen_graph.py --n 10000 --seeds 60 61 62 63 64
    python -m perf.communities ROOT

The first makes graphs with planted topics: for each design the median agreement with them (adjusted
Rand index) after Leiden and after the merges. The second takes the graph of a finished build, whose
names have vectors already, and has no topics. Both print modularity on the relations, numbers of
communities (and of those with three members, which the knowledge tree describes) and merges, and
seconds of processor time of `detect`, with the shares of Leiden and of merging in them; encoding is
not in them. One JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import faiss
import numpy as np
import pyarrow.parquet as pq
from sklearn.metrics import adjusted_rand_score

from srrag.algo import communities as algorithm
from srrag.algo.communities import EvidenceGraph, detect
from srrag.graph.communities import read_nodes
from srrag.graph.foreign import read_graph
from srrag.graph.knowledge_tree import BuildKnowledgeTree
from srrag.graph.nodes import Nodes
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.storage.store import Store

PHASES = {"start": "leiden", "merge": "merging"}
"""The functions that `detect` calls, and what their seconds count as."""
FIGURES = ("ari_leiden", "ari", "communities", "merges", "modularity_leiden", "modularity",
           "cpu_s", "share_leiden", "share_merging")  # fmt: skip
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="generator of graphs, or folder of a build")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13, 14])
    parser.add_argument("--factors", type=float, nargs="+", default=[0.75, 1.0, 1.5])
    parser.add_argument("--topic-sizes", type=int, nargs="+", default=[40, 60])
    parser.add_argument("--p-in", type=float, nargs="+", default=[0.85, 0.7],
                        help="share of edges inside a topic")  # fmt: skip
    arguments = parser.parse_args(argv)
    faiss.omp_set_num_threads(1)
    if arguments.source.is_dir():
        told = measured(built(arguments.source))[1]
    else:
        told = summarise(list(rows(arguments)))
    print(json.dumps(told))


def built(root: Path) -> EvidenceGraph:
    """The graph of a finished build, with the vectors of its names."""
    artifacts = Store(root).artifacts("default")
    nodes, vectors = read_nodes(artifacts["entities"], artifacts["names"])
    return nodes.graph(vectors)


def rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """A row for each graph; graphs of one seed and topic size share their names."""
    for size, seed in itertools.product(arguments.topic_sizes, arguments.seeds):
        known: dict[str, np.ndarray] = {}
        for p_in, factor in itertools.product(arguments.p_in, arguments.factors):
            design = {"topic_size": size, "p_in": p_in, "edge_factor": factor}
            graph, topics = planted(arguments.source, arguments.n, seed, design, known)
            partitions, row = measured(graph)
            names = zip(("ari_leiden", "ari"), partitions, strict=True)
            agreed = {name: _agreement(topics, labels) for name, labels in names}
            yield {**design, "seed": seed, **agreed, **row}
        print(f"topics of {size}, seed {seed}", file=sys.stderr, flush=True)


def planted(
    generator: Path, n: int, seed: int, design: Row, known: dict[str, np.ndarray]
) -> tuple[EvidenceGraph, np.ndarray]:
    """Make one graph; returns it and the topic of each node. `known` keeps vectors of names."""
    keys = {key.replace("_", "-"): value for key, value in design.items()}
    settings = {"n": n, "seed": seed, "attrs": 0.0, **keys}
    options = [text for key, value in settings.items() for text in (f"--{key}", str(value))]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = folder / "graph.json"
        command = [sys.executable, str(generator), *options, "--out", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for table, name in zip(read_graph(path), ("entities", "edges"), strict=True):
            pq.write_table(table, folder / f"{name}.parquet")
        nodes = Nodes.read(folder)
        topic = {node["id"]: node["topic"] for node in json.loads(path.read_text())["nodes"]}
    names: list[str] = nodes.names.to_pylist()
    new = sorted(set(names) - known.keys())
    known.update(zip(new, load(Encoder()).encode(new).astype(np.float16), strict=True))
    topics = np.array([topic[key] for key in nodes.core_ids.to_pylist()])
    return nodes.graph(np.stack([known[name] for name in names])), topics


def measured(graph: EvidenceGraph) -> tuple[tuple[np.ndarray, np.ndarray], Row]:
    """The partitions after Leiden and after the merges, and the figures of both."""
    with clocked() as spent:
        began = time.process_time()
        found = detect(graph)
        whole = time.process_time() - began
    figures = {
        "communities_leiden": len(np.unique(found.initial)),
        "communities": len(np.unique(found.labels)),
        "described_leiden": described(found.initial),
        "described": described(found.labels),
        "merges": found.num_merges,
        "modularity_leiden": round(found.initial_modularity, 4),
        "modularity": round(found.modularity, 4),
        "cpu_s": round(whole, 3),
        **{f"share_{phase}": round(each / whole, 3) for phase, each in spent.items()},
    }
    return (found.initial, found.labels), figures


def described(labels: np.ndarray) -> int:
    """Communities that the knowledge tree describes, with a call each where a model is asked."""
    return int((np.bincount(labels) >= BuildKnowledgeTree.min_members).sum())


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """Seconds of processor time in each phase of `detect`, while it runs."""
    spent = dict.fromkeys(PHASES.values(), 0.0)
    with ExitStack() as stack:
        for name, phase in PHASES.items():
            stack.enter_context(mock.patch.object(algorithm, name, _clock(name, phase, spent)))
        yield spent


def _clock(name: str, phase: str, spent: dict[str, float]) -> Callable[..., Any]:
    timed: Callable[..., Any] = getattr(algorithm, name)

    def call(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        found = timed(*given, **named)
        spent[phase] += time.process_time() - began
        return found

    return call


def _agreement(topics: np.ndarray, labels: np.ndarray) -> float:
    return round(float(adjusted_rand_score(topics, labels)), 4)


def summarise(found: Sequence[Row]) -> Row:
    """Medians over the seeds of each design, and over all graphs."""
    told: Row = {"graphs": len(found), "medians": [], "over_all": _medians(found)}
    keys = ("topic_size", "p_in", "edge_factor")
    for values in sorted({tuple(row[key] for key in keys) for row in found}):
        mine = [row for row in found if tuple(row[key] for key in keys) == values]
        told["medians"].append(dict(zip(keys, values, strict=True)) | _medians(mine))
    return told


def _medians(found: Sequence[Row]) -> Row:
    return {name: round(statistics.median(row[name] for row in found), 4) for name in FIGURES}


if __name__ == "__main__":
    main()
