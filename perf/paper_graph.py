"""`python -m perf.paper_graph GENERATOR`: merge, communities and tree of a graph in one process.

By default the graph has the paper's size, 357,844 nodes and 371,226 edges with planted topics; its
facts are given. Neither encoding (vectors of names are sums of random vectors of words, made
beforehand) nor a model is in it. Prints one JSON object: seconds of processor time and of the
clock by stage, the peak of memory, figures, and agreement with the topics. With several sizes also
the exponent with which seconds grow from the first to the last.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perf.merge import peak_mib
from perf.update import GivenFacts, Names, documents, drawn_names
from srrag.graph.communities import DetectCommunities, read_communities
from srrag.graph.encode_names import EncodeNames
from srrag.graph.entities import MergeEntities
from srrag.graph.facts import entity_id
from srrag.graph.knowledge_tree import BuildKnowledgeTree
from srrag.index.units import BuildUnits
from srrag.schema import DOCUMENTS, UNITS
from srrag.step import Build, Place
from srrag.storage.atomic_write import write_parquet

NODES, EDGES = 357_844, 371_226
TOPIC_SIZE = 203
_PART = 4_000


def prepare(folder: Path) -> None:
    """Write the facts of `graph.json` as parts, its names' vectors and its topics."""
    graph = json.loads((folder / "graph.json").read_text("utf-8"))
    read = GivenFacts().open(Place())
    records = documents(graph)
    for number, start in enumerate(range(0, len(records), _PART)):
        some = records[start : start + _PART]
        bodies = [json.dumps({"facts": json.loads(item.body)["facts"]}) for item in some]
        batch = pa.table({"raw_id": [item.raw_id for item in some], "body": bodies})
        write_parquet(read(batch), folder / f"part-{number:05d}.parquet")
    for name, schema in (("windows", UNITS), ("documents", DOCUMENTS)):
        pq.write_table(schema.empty_table(), folder / f"{name}.parquet")
    nodes = [item for item in graph["nodes"] if item["topic"] is not None]
    names = pa.array([item["name"] for item in nodes])
    for name in ("merged", "names"):
        (folder / name).mkdir()
    parts = sorted(folder.glob("part-*.parquet"))
    MergeEntities().build({"triples": parts}, folder / "merged", Place(threads=1))
    with drawn_names(Names()):
        EncodeNames().build({"entities": [folder / "merged"]}, folder / "names", Place())
    topics = {
        "entity_id": [entity_id(item["schema_type"], item["name"]) for item in nodes],
        "name": names,
        "topic": [item["topic"] for item in nodes],
    }
    pq.write_table(pa.table(topics), folder / "topics.parquet")


def measure(folder: Path) -> dict[str, Any]:
    """Run the builds one after the other."""
    units = {name: [folder / f"{name}.parquet"] for name in ("windows", "documents")}
    built = partial(_built, folder)
    built("units", BuildUnits(), units)
    parts = sorted(folder.glob("part-*.parquet"))
    found: dict[str, Any] = {"entities": built("entities", MergeEntities(), {"triples": parts})}
    inputs = {name: [folder / name] for name in ("entities", "names", "communities", "units")}
    found["communities"] = built("communities", DetectCommunities(), inputs)
    found["tree"] = built("tree", BuildKnowledgeTree(), inputs)
    for name in ("cpu_s", "wall_s"):
        found[name] = round(
            sum(found[stage][name] for stage in ("entities", "communities", "tree")), 2
        )
    return {**found, "peak_mib": peak_mib()}


def _built(
    folder: Path, name: str, build: Build, inputs: dict[str, list[Path]]
) -> dict[str, float | int | str]:
    (folder / name).mkdir()
    call: Callable[[], Any] = partial(build.build, inputs, folder / name, Place(threads=1))
    wall, cpu = time.perf_counter(), time.process_time()
    figures = call()
    return {
        **figures,
        "cpu_s": round(time.process_time() - cpu, 2),
        "wall_s": round(time.perf_counter() - wall, 2),
    }


def agreement(folder: Path) -> float:
    """Adjusted Rand index of the communities with the topics."""
    from sklearn.metrics import adjusted_rand_score

    topics = pq.read_table(folder / "topics.parquet")
    ids, communities = read_communities(folder / "communities").columns
    found = dict(zip(ids.to_pylist(), communities.to_pylist(), strict=True))
    mine = [found[key] for key in topics["entity_id"].to_pylist()]
    return round(float(adjusted_rand_score(topics["topic"].to_pylist(), mine)), 4)


def one(generator: Path, nodes: int, seed: int, folder: Path) -> dict[str, Any]:
    """Make a graph and measure it, each in a process of its own: memory is that of the builds."""
    command = [
        sys.executable, str(generator), "--n", str(nodes), "--seed", str(seed), "--attrs", "0",
        "--edge-factor", str(EDGES / NODES), "--topic-size", str(TOPIC_SIZE),
        "--out", str(folder / "graph.json"),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    again = [sys.executable, "-m", "perf.paper_graph", str(generator), "--folder", str(folder)]
    subprocess.run([*again, "--step", "prepare"], check=True)
    found = json.loads(subprocess.check_output([*again, "--step", "measure"], text=True))
    return {"nodes": nodes, **found, "ari": agreement(folder)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("generator", type=Path, help="script that writes a graph as JSON")
    parser.add_argument("--nodes", type=int, nargs="+", default=[NODES])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", help="where to write; a temporary folder if not given")
    parser.add_argument("--step", choices=("prepare", "measure"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step == "prepare":
        prepare(arguments.folder)
        return
    if arguments.step == "measure":
        print(json.dumps(measure(arguments.folder)))
        return
    sizes = []
    for nodes in arguments.nodes:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            sizes.append(one(arguments.generator, nodes, arguments.seed, Path(folder)))
            print(json.dumps(sizes[-1]), file=sys.stderr)
    report: dict[str, Any] = {"sizes": sizes}
    growth = math.log(sizes[-1]["nodes"] / sizes[0]["nodes"])
    if growth > 0:
        report["exponent"] = round(math.log(sizes[-1]["cpu_s"] / sizes[0]["cpu_s"]) / growth, 3)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
