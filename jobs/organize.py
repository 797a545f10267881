"""`srrag organize graph.path=FILE.json`: the communities of a graph that another tool made."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from srrag.config import factory
from srrag.core.errors import UsageError, reading
from srrag.graph.foreign import coverage, organized, read_graph
from srrag.runner.deletion.vacuum import drop_unfinished
from srrag.runner.progress import say
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Read the graph, find its communities, and write both into `root`.

    It reuses the vectors of names that `root` has already.
    """
    path = Path(config["graph"]["path"])
    if not path.is_file():
        raise UsageError(f"graph.path={path} is not a file")
    names, step = (factory.make(config[name], name) for name in ("names", "communities"))
    with reading(path):
        nodes, edges = read_graph(path)
    store = Store(config["root"])
    store.create()
    folder = store.root / "organize"
    with store.lock():
        drop_unfinished(store, questions=False)
        started = time.perf_counter()
        figures = organized(names, step, nodes, edges, folder, factory.place(config))
        seconds = time.perf_counter() - started - figures["encoding_seconds"]
    found = pq.read_table(folder / "communities.parquet")
    summary = {
        "communities": figures["communities"],
        "coverage": coverage(nodes["entity_id"], found["entity_id"]),
        "seconds": round(seconds, 3),
        "communities_path": str(folder / "communities.parquet"),
        "nodes": nodes.num_rows,
        "edges": edges.num_rows,
        **figures,
    }
    say(
        f"{summary['communities']} communities of {summary['nodes']} nodes after "
        f"{summary['merges']} merges, modularity {summary['modularity']}"
    )
    return summary
