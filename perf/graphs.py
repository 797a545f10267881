"""Builds of one root side by side: what their graphs hold.

python -m perf.graphs ROOT BUILD [BUILD ...]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.graph.layers import read_rows
from srrag.storage.store import Store


def main(arguments: Sequence[str]) -> None:
    """Print a line a figure, a column a build."""
    root, *builds = arguments
    columns = [figures(Store(root), build) for build in builds]
    print(f"{'':<36}" + "".join(f"{build:>14}" for build in builds))
    for name in dict.fromkeys(name for column in columns for name in column):
        print(f"{name:<36}" + "".join(f"{column.get(name, 0):>14}" for column in columns))


def figures(store: Store, build: str) -> dict[str, str | int]:
    """Sizes, degrees and types of a build's graph."""
    folders = {name: Path(folder) for name, folder in store.artifacts(build).items()}
    entry = store.read_pointer(build)["stages"]["triples"]
    facts = pa.concat_tables(
        store.read_part("triples", entry["fingerprint"], part, ["unit_id", "kind", "reject"])
        for part in entry["parts"]
    )
    facts = facts.filter(pc.field("reject").is_null())
    nodes = read_rows(folders["entities"] / "entities.parquet")
    edges = read_rows(folders["entities"] / "edges.parquet")
    places = {name: i for i, name in enumerate(nodes["entity_id"].to_pylist())}
    ends = np.array(
        [[places[end] for end in edges[name].to_pylist()] for name in ("head_id", "tail_id")]
    )
    degree = np.bincount(ends.ravel(), minlength=len(places))
    kinds = np.array(nodes["type"].to_pylist())
    # Edges to documents do not link passages with each other.
    inner = (kinds[ends] != "Document").all(0)
    near = np.bincount(ends[:, inner].ravel(), minlength=len(places))
    mentions = pc.list_value_length(nodes["mentions"]).to_numpy()
    entity = kinds != "Document"
    out: dict[str, str | int] = {
        "facts": facts.num_rows,
        "passages with a fact": pc.count_distinct(facts["unit_id"]).as_py(),
        "nodes": len(places),
        "edges": edges.num_rows,
        "edges between entities": int(inner.sum()),
        "entities without an edge": int((entity & (degree == 0)).sum()),
        "entities without one to an entity": int((entity & (near == 0)).sum()),
        "entities in two passages or more": int((entity & (mentions > 1)).sum()),
        "mean letters of a name": f"{np.mean(_lengths(nodes['name'])):.1f}",
    }
    for kind, count in sorted(Counter(kinds.tolist()).items(), key=lambda item: -item[1]):
        out[f"  {kind}"] = count
    return out


def _lengths(names: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.utf8_length(names))


if __name__ == "__main__":
    main(sys.argv[1:])
