"""`python -m perf.read_nodes ROOT SEED [count]`: nodes of a graph at random, to be read and marked.

Prints a line a node: number, type, name, mentions, and the words around its first mention. Studies
and values of attributes are left out. Mark each line that is no concept (a fragment, a number, a
word of a section, a name with words of its sentence in it); the share of the others is the figure.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.graph.layers import read_rows
from srrag.graph.nodes import DOCUMENT
from srrag.storage.store import Store

NODES = 200
AROUND = 40


def main(argv: Sequence[str]) -> None:
    """Draw and print."""
    artifacts = Store(Path(argv[0])).artifacts("default")
    seed, count = int(argv[1]), int(argv[2]) if len(argv) > 2 else NODES
    entities = read_rows(artifacts["entities"] / "entities.parquet")
    edges = read_rows(artifacts["entities"] / "edges.parquet", ["kind", "tail_id"])
    values = pc.unique(edges.filter(pc.equal(edges["kind"], "attribute"))["tail_id"])
    left = pc.or_(pc.is_in(entities["entity_id"], values), pc.equal(entities["type"], DOCUMENT))
    nodes = entities.filter(pc.invert(left)).sort_by("entity_id")
    drawn = np.random.default_rng(seed).choice(nodes.num_rows, count, replace=False)
    chunks = pa.concat_tables(
        pq.read_table(p) for p in sorted(artifacts["chunks"].glob("*.parquet"))
    )
    place = {unit: n for n, unit in enumerate(chunks["unit_id"].to_pylist())}
    for number, node in enumerate(nodes.take(pa.array(np.sort(drawn))).to_pylist(), start=1):
        first, said = node["mentions"][0], ""
        row = place.get(first["unit_id"])
        if row is not None:
            start = first["char_start"] - chunks["char_start"][row].as_py()
            text = chunks["text"][row].as_py()
            said = " ".join(text[max(0, start - AROUND) : start + AROUND].split())
        print(f"{number}\t{node['type']}\t{node['name']}\t{len(node['mentions'])}\t{said}")


if __name__ == "__main__":
    main(sys.argv[1:])
