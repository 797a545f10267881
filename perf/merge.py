"""`python -m perf.merge`: what merging facts into a graph costs, and adding documents to it.

Facts have the shape of the paper's graph: 12.3 % of the nodes are entities, the others attributes
of one entity each; a fact is written 1.4 times on average, some many times, 5 % in other letters.
Each size is merged in a process of its own. Prints one JSON object: seconds of processor time
and peak memory of a merge, seconds of an update by the last 1 % of the documents, and the exponent
with which seconds grow with nodes from the smallest size to the largest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.graph.entities import MergeEntities
from srrag.ids import content_id
from srrag.schema import TRIPLES
from srrag.step import Place, PreviousVersion
from srrag.storage.atomic_write import write_parquet

CORE_SHARE = 44_033 / 357_844
EDGES_PER_NODE = 371_226 / 357_844
WRITTEN = 1.4
FACTS_PER_DOCUMENT = 40
TYPES = ("Intervention", "Condition", "Outcome", "Population", "Arm", "Device", "Comparator")
WORDS = ("resisted", "knee", "extension", "early", "chronic", "pain", "gait", "load", "training")


def edges(nodes: int) -> pa.Table:
    """Distinct facts that name each of the nodes: relations in a band, one edge an attribute."""
    core = round(nodes * CORE_SHARE)
    relations = round(nodes * EDGES_PER_NODE) - (nodes - core)
    heads = np.arange(relations) % core
    tails = (heads + 1 + np.arange(relations) // core) % core
    owners = np.random.default_rng(1).integers(0, core, nodes - core)
    kinds = np.repeat(["relation", "attribute"], [relations, nodes - core])
    return pa.table(
        {
            "kind": pa.array(kinds.tolist()),
            "head": _names(np.concatenate([heads, owners])),
            "head_type": _types(np.concatenate([heads, owners])),
            "relation": pa.array(
                np.where(kinds == "relation", "compares_to", "has_attribute").tolist()
            ),
            "tail": _names(np.concatenate([tails, np.arange(core, nodes)])),
            "tail_type": _types(np.concatenate([tails, np.arange(core, nodes)])),
            "place": np.concatenate([heads, owners]),
        }
    )


def _names(numbers: np.ndarray) -> pa.Array:
    return pa.array([f"{WORDS[n % 9]} {WORDS[n // 9 % 9]} {n}" for n in numbers.tolist()])


def _types(numbers: np.ndarray) -> pa.Array:
    return pa.array([TYPES[n % len(TYPES)] for n in numbers.tolist()])


def facts(nodes: int) -> pa.Table:
    """TRIPLES sorted by document: each edge once, some again and again."""
    draw = np.random.default_rng(2)
    once = edges(nodes)
    again = (once.num_rows * draw.random(round(once.num_rows * (WRITTEN - 1))) ** 3).astype(int)
    table = once.take(pa.array(np.concatenate([np.arange(once.num_rows), again])))
    rows = table.num_rows
    loud = pa.array(draw.random(rows) < 0.05)
    documents = rows // FACTS_PER_DOCUMENT + 1
    spread = table["place"].to_numpy() * documents // (nodes * CORE_SHARE) + draw.integers(
        0, 3, rows
    )
    number = np.minimum(spread, documents - 1).astype(int)
    ids = pa.array([content_id(str(n)) for n in range(documents)])
    units = pa.array([content_id(str(n), "window") for n in range(documents * 8)])
    start = pa.array(draw.integers(0, 4000, rows), pa.int32())
    columns: dict[str, Any] = {
        **{name: table[name] for name in ("kind", "head_type", "relation", "tail", "tail_type")},
        "head": pc.if_else(loud, pc.utf8_upper(table["head"]), table["head"]),
        "fact_id": pa.array(range(rows)).cast(pa.string()),
        "doc_id": ids.take(pa.array(number)),
        "unit_id": units.take(pa.array(number * 8 + draw.integers(0, 8, rows))),
        "char_start": start,
        "char_end": pc.add(start, pa.scalar(120, pa.int32())),
        "confidence": pa.array(draw.random(rows), pa.float32()),
        **dict.fromkeys(("quote", "grade"), pa.repeat("", rows)),
        "reject": pa.nulls(rows, TRIPLES.field("reject").type),
    }
    whole = pa.table([columns[name] for name in TRIPLES.names], schema=TRIPLES)
    return whole.take(pa.array(np.argsort(number, kind="stable")))


def write_parts(table: pa.Table, folder: Path) -> list[Path]:
    """Write parts of 500 documents, the last with 1 % of the documents."""
    folder.mkdir()
    last = round(table.num_rows * 0.99)
    cuts = [*range(0, last, 500 * FACTS_PER_DOCUMENT), last, table.num_rows]
    paths = []
    for number, (start, end) in enumerate(itertools.pairwise(cuts)):
        paths.append(folder / f"part-{number:05d}.parquet")
        write_parquet(table.slice(start, end - start), paths[-1])
    return paths


def measure(folder: Path, threads: int) -> dict[str, Any]:
    """Merge the parts of a folder, then add the last part to a graph of the others."""
    paths, place = sorted((folder / "parts").glob("*.parquet")), Place(threads=threads)
    for name in ("whole", "before", "after"):
        (folder / name).mkdir()
    merge = MergeEntities()
    figures, seconds, wall = _timed(
        lambda: merge.build({"triples": paths}, folder / "whole", place)
    )
    peak = peak_mib()
    merge.build({"triples": paths[:-1]}, folder / "before", place)
    former = PreviousVersion(folder / "before", frozenset(paths[:-1]))
    _, update, _ = _timed(lambda: merge.update({"triples": paths}, folder / "after", place, former))
    same = all(
        (folder / "whole" / f"{name}.parquet").read_bytes()
        == (folder / "after" / f"{name}.parquet").read_bytes()
        for name in ("entities", "edges")
    )
    return {
        **figures, "merge_s": seconds, "merge_wall_s": wall, "peak_mib": peak,
        "update_s": update, "update_share": round(update / seconds, 3), "update_equal": same,
    }  # fmt: skip


def peak_mib() -> int:
    """Peak memory of this program; `getrusage` would count that of the process that began it."""
    status = Path("/proc/self/status").read_text("utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def _timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    return value, round(time.process_time() - cpu, 2), round(time.perf_counter() - wall, 2)


def main() -> None:
    """Measure each size and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 100_000, 357_844])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--scratch", help="where to write; a temporary folder if not given")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.threads)))
        return
    found = []
    for nodes in sorted(arguments.nodes):
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            write_parts(facts(nodes), Path(folder) / "parts")
            command = [sys.executable, "-m", "perf.merge", "--one", folder]
            command += ["--threads", str(arguments.threads)]
            found.append(json.loads(subprocess.check_output(command, text=True)))
    first, last = found[0], found[-1]
    growth = last["entities"] / first["entities"]
    report: dict[str, Any] = {"sizes": found}
    if growth > 1:
        exponent = math.log(last["merge_s"] / first["merge_s"]) / math.log(growth)
        report["exponent"] = round(exponent, 3)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
