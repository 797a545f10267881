"""`python -m perf.graph_search`: how long the graph channel takes, and what tree and index cost.

The graph has communities of 40 entities with a vector in common, edges mostly inside them, one
window for four nodes, and a mention or two a node. `--core` is the share of nodes that are
entities with a vector, the others are attributes: .123 in the paper, 1 the worst case. Prints one
JSON object: p50 and p95 milliseconds of one question at a time (without its encoding), p50 of
processor time, and processor seconds, peak memory and size of building index and tree.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.graph.knowledge_tree import BuildKnowledgeTree
from srrag.graph.name_vectors import NAMES, SCALES, VALUES
from srrag.ids import content_id
from srrag.index.graph import BuildGraphIndex
from srrag.index.graph_reader import GraphIndex, GraphQuestion
from srrag.index.units import BuildUnits
from srrag.model.embed import quantise_rows
from srrag.schema import COMMUNITIES, DOCUMENTS, EDGES, ENTITIES, UNITS, empty_value
from srrag.step import Place
from srrag.storage.arrow_file import save_table
from srrag.storage.shards import IndexShard, shard_file, write_shards

DIMENSION = 384
COMMUNITY = 40
EDGES_PER_NODE = 371_226 / 357_844
NODES_PER_WINDOW = 4
WINDOWS_PER_DOCUMENT = 8
WINDOW_CHARS = 1000
TYPES = ("Intervention", "Condition", "Outcome", "Population", "Arm", "Device", "Comparator")
WORDS = ("knee", "pain", "gait", "load", "training", "strength", "balance", "range", "motion")


def write_graph(nodes: int, core: float, root: Path) -> dict[str, list[Path]]:
    """Write the input stages of index and tree; returns their paths."""
    draw = np.random.default_rng(0)
    num_core = max(2, round(nodes * core))
    windows = nodes // NODES_PER_WINDOW
    spans = _write_windows(windows, draw, root)
    ids = [content_id("entity", str(n)) for n in range(nodes)]
    owner = np.concatenate([np.arange(num_core), draw.integers(0, num_core, nodes - num_core)])
    label = owner // COMMUNITY
    home = draw.integers(0, windows, nodes)
    folder = root / "entities"
    folder.mkdir()
    entities = {
        "entity_id": ids,
        "name": [f"{WORDS[n % 9]} {WORDS[n // 9 % 9]} {n // 81}" for n in range(nodes)],
        "type": [TYPES[n % 7] if n < num_core else "dose" for n in range(nodes)],
        "mentions": _mentions(ENTITIES.field("mentions").type, home, spans, draw),
    }
    pq.write_table(pa.table(entities, schema=ENTITIES), folder / "entities.parquet")
    relations = round(nodes * EDGES_PER_NODE) - (nodes - num_core)
    heads = draw.integers(0, num_core, relations)
    inside = heads // COMMUNITY * COMMUNITY + draw.integers(0, COMMUNITY, relations)
    tails = np.where(draw.random(relations) < 0.85, inside, draw.integers(0, num_core, relations))
    heads = np.concatenate([heads, owner[num_core:]])
    tails = np.concatenate([np.minimum(tails, num_core - 1), np.arange(num_core, nodes)])
    edges = {
        "edge_id": [content_id("edge", str(n)) for n in range(len(heads))],
        "kind": ["relation"] * relations + ["attribute"] * (nodes - num_core),
        "head_id": [ids[n] for n in heads],
        "relation": ["compares_to"] * relations + ["has_attribute"] * (nodes - num_core),
        "tail_id": [ids[n] for n in tails],
        "confidence": np.ones(len(heads), np.float32),
        "mentions": _mentions(EDGES.field("mentions").type, home[heads], spans, draw),
    }
    pq.write_table(pa.table(edges, schema=EDGES), folder / "edges.parquet")
    _write_communities(ids, label, num_core, draw, root)
    return {
        "entities": [folder],
        "names": [root / "names"],
        "communities": [root / "communities"],
        "windows": [root / "windows.parquet"],
        "documents": [root / "documents.parquet"],
        "tree": [root / "tree"],
        "units": [root / "units"],
    }


def _write_windows(windows: int, draw: np.random.Generator, root: Path) -> dict[str, Any]:
    document = np.arange(windows) // WINDOWS_PER_DOCUMENT
    start = np.arange(windows) % WINDOWS_PER_DOCUMENT * WINDOW_CHARS
    doc_ids = [content_id("document", str(n)) for n in range(document[-1] + 1)]
    unit_ids = [content_id("window", str(n)) for n in range(windows)]
    own = {"doc_id": [doc_ids[n] for n in document], "char_start": start}
    _write(UNITS, root / "windows.parquet", unit_id=unit_ids, **own, char_end=start + WINDOW_CHARS)
    _write(DOCUMENTS, root / "documents.parquet", doc_id=doc_ids)
    return {"unit_id": pa.array(unit_ids), "doc_id": pa.array(own["doc_id"]), "start": start}


def _write(schema: pa.Schema, path: Path, **columns: Any) -> None:
    rows = len(next(iter(columns.values())))
    table = {
        item.name: pa.nulls(rows, item.type)
        if item.name == "reject"
        else pa.array(columns.get(item.name, [empty_value(item.type)] * rows)).cast(item.type)
        for item in schema
    }
    pq.write_table(pa.table(table, schema=schema), path)


def _mentions(
    kind: pa.DataType, home: np.ndarray, spans: dict[str, Any], draw: np.random.Generator
) -> pa.Array:
    """One or two mentions a row, in its home window or one near by."""
    counts = 1 + (draw.random(len(home)) < 0.2).astype(np.int32)
    near = np.repeat(home, counts) + draw.integers(0, 3, counts.sum())
    window = np.minimum(near, len(spans["start"]) - 1)
    start = spans["start"][window] + draw.integers(0, WINDOW_CHARS - 100, len(window))
    columns = {
        "unit_id": spans["unit_id"].take(pa.array(window)),
        "doc_id": spans["doc_id"].take(pa.array(window)),
        "char_start": pa.array(start, pa.int32()),
        "char_end": pa.array(start + 60, pa.int32()),
        "name": pa.repeat("", len(window)),
        "confidence": pa.array(np.ones(len(window), np.float32)),
    }
    fields = list(kind.value_type)
    structs = pa.StructArray.from_arrays([columns[item.name] for item in fields], fields=fields)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs)


def _write_communities(
    ids: list[str], label: np.ndarray, num_core: int, draw: np.random.Generator, root: Path
) -> None:
    folder = root / "communities"
    folder.mkdir()
    names = [content_id("community", str(n)) for n in range(label.max() + 1)]
    table = pa.table({"entity_id": ids, "community_id": [names[n] for n in label]})
    pq.write_table(table.cast(COMMUNITIES), folder / "communities.parquet")
    topic = draw.standard_normal((len(names), DIMENSION), dtype=np.float32)
    vectors = topic[label[:num_core]] + draw.standard_normal((num_core, DIMENSION), np.float32)
    (names_of := root / "names").mkdir()
    save_table(
        pa.table({"id": ids[:num_core], "name": ids[:num_core]}), names_of / shard_file(NAMES, 0)
    )
    for name, array in zip((VALUES, SCALES), quantise_rows(_unit(vectors)), strict=True):
        np.save(names_of / shard_file(name, 0), array)
    write_shards([IndexShard(0, (), num_core)], names_of)


def _unit(rows: np.ndarray) -> np.ndarray:
    found: np.ndarray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return found


def measure(nodes: int, core: float, root: Path, questions: int) -> dict[str, Any]:
    """Build index and tree, then ask."""
    paths = write_graph(nodes, core, root)
    (root / "units").mkdir()
    BuildUnits().build(paths, root / "units", Place())
    found: dict[str, Any] = {"nodes": nodes, "core": core}
    before = _peak_mib()
    for name, job in (("tree", BuildKnowledgeTree()), ("index", BuildGraphIndex())):
        (root / name).mkdir()
        started = time.process_time()
        found[name] = job.build(paths, root / name, Place(threads=1))
        found[name]["cpu_s"] = round(time.process_time() - started, 2)
        found[name]["peak_mib"] = round(_peak_mib())
    found["inputs_peak_mib"] = round(before)
    size = sum(path.stat().st_size for path in (root / "index").rglob("*") if path.is_file())
    found["index_mib"] = round(size / 2**20, 1)
    index = GraphIndex(root / "index")
    draw = np.random.default_rng(1)
    seconds, cpu = [], []
    for number in range(questions + 5):
        vector = _unit(draw.standard_normal((1, DIMENSION))).tobytes()
        text = f"does {WORDS[number % 9]} {WORDS[number // 9 % 9]} 3 improve gait in adults?"
        question = GraphQuestion(text, vector, vector, vector)
        started, busy = time.perf_counter(), time.process_time()
        (reached,) = index.search(question, 120)
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - busy)
        assert len(reached.unit_ids) == min(120, nodes // NODES_PER_WINDOW)
    ms = 1000 * np.array(seconds[5:])
    return found | {
        "p50_ms": round(float(np.median(ms)), 2),
        "p95_ms": round(float(np.quantile(ms, 0.95)), 2),
        "p50_cpu_ms": round(1000 * float(np.median(cpu[5:])), 2),
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each size and share in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 357_844])
    parser.add_argument("--core", type=float, nargs="+", default=[44_033 / 357_844, 1.0])
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        with tempfile.TemporaryDirectory() as folder:
            (nodes,), (core,) = arguments.nodes, arguments.core
            print(json.dumps(measure(nodes, core, Path(folder), arguments.questions)))
        return
    found = []
    for nodes in arguments.nodes:
        for core in arguments.core:
            command = [sys.executable, "-m", "perf.graph_search", "--one", "--nodes", str(nodes)]
            command += ["--core", str(core), "--questions", str(arguments.questions)]
            found.append(json.loads(subprocess.check_output(command, text=True)))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
