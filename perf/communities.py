"""Communities of graphs with planted topics: seconds, memory and agreement (adjusted Rand index).

    python -m perf.communities ../shared/bench/gen_graph.py --n 10000 --seeds 10 11 12 13 14

Every graph goes through `srrag organize`; the names of a seed are encoded for each of its graphs,
and these seconds are reported beside. The last line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DESIGN_SEEDS = (0, 1, 2)
"""Seeds on which the parameters were fixed: figures on these are not blind."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("generator", type=Path, help="script that writes a graph as JSON")
    parser.add_argument("--n", type=int, nargs="+", default=[10_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13, 14])
    parser.add_argument("--factors", type=float, nargs="+", default=[0.75, 1.0, 1.25, 1.5])
    parser.add_argument("--topic-size", type=int, default=40)
    parser.add_argument("--p-in", type=float, default=0.85, help="share of edges inside a topic")
    parser.add_argument("--method", default="leiden", choices=("leiden", "paper"))
    parser.add_argument("--attrs", type=float, default=0.0)
    arguments = parser.parse_args()
    if blind := sorted(set(arguments.seeds) & set(DESIGN_SEEDS)):
        print(f"seeds {blind} were used while designing", file=sys.stderr)
    rows = []
    for n in arguments.n:
        for seed in arguments.seeds:
            for factor in arguments.factors:
                with tempfile.TemporaryDirectory() as scratch:
                    rows.append(measure(arguments, n, seed, factor, Path(scratch)))
                print(rows[-1], file=sys.stderr)
    print(json.dumps(summarise(rows)))


def measure(
    arguments: argparse.Namespace, n: int, seed: int, factor: float, scratch: Path
) -> dict[str, Any]:
    """Make one graph, find its communities, and compare them with the planted topics."""
    path = scratch / "graph.json"
    command = [
        sys.executable, str(arguments.generator), "--n", str(n), "--seed", str(seed),
        "--edge-factor", str(factor), "--topic-size", str(arguments.topic_size),
        "--p-in", str(arguments.p_in), "--attrs", str(arguments.attrs), "--out", str(path),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, "-m", "jobs.cli", "organize", f"graph.path={path}",
               f"communities.method={arguments.method}"]  # fmt: skip
    done = subprocess.run(
        [*command, f"root={scratch / 'root'}"], check=True, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    kept = ("nodes", "edges", "seconds", "encoding_seconds", "coverage", "communities",
            "initial_communities", "merges", "initial_modularity", "modularity")  # fmt: skip
    return {
        "n": n,
        "seed": seed,
        "edge_factor": factor,
        "ari": agreement(path, Path(found["communities_path"])),
        **{name: found[name] for name in kept},
    }


def agreement(graph: Path, communities: Path) -> float:
    """Adjusted Rand index of the found communities with the planted topics, over entities."""
    import pyarrow.parquet as pq
    from sklearn.metrics import adjusted_rand_score

    table = pq.read_table(communities).to_pydict()
    found = dict(zip(table["entity_id"], table["community_id"], strict=True))
    nodes = [node for node in json.loads(graph.read_text())["nodes"] if node["topic"] is not None]
    topics = [node["topic"] for node in nodes]
    return round(float(adjusted_rand_score(topics, [found[node["id"]] for node in nodes])), 4)


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians by size and edge factor, and how the seconds grow from the least to the most n."""
    sizes = sorted({row["n"] for row in rows})
    seconds = {n: statistics.median(row["seconds"] for row in rows if row["n"] == n) for n in sizes}
    summary: dict[str, Any] = {
        "median_ari": {n: _median(rows, "ari", n=n) for n in sizes},
        "median_ari_by_edge_factor": {
            factor: _median(rows, "ari", edge_factor=factor)
            for factor in sorted({row["edge_factor"] for row in rows})
        },
        "median_seconds": seconds,
        "least_coverage": min(row["coverage"] for row in rows),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 2),
        "rows": rows,
    }
    if len(sizes) > 1:
        growth = math.log(seconds[sizes[-1]] / seconds[sizes[0]])
        summary["growth_exponent"] = round(growth / math.log(sizes[-1] / sizes[0]), 3)
    return summary


def _median(rows: list[dict[str, Any]], name: str, **where: Any) -> float:
    chosen = [row[name] for row in rows if all(row[key] == where[key] for key in where)]
    return round(statistics.median(chosen), 4)


if __name__ == "__main__":
    main()
