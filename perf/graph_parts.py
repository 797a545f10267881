"""`python -m perf.graph_parts ROOT BENCH`: what each part of the graph channel finds by itself.

ROOT is a finished build of the BEIR set in the folder BENCH. Each part alone, the channel, the same
with edges rewired and with communities permuted, and its fusion with vectors and BM25 by reciprocal
rank: nDCG@10, recall@100, and how many relevant windows stand outside the 300 that vectors find.
`half=blind` keeps the questions whose sha256 is odd (the weights were set on the others),
`questions=N` the first N of them, `slice=list` questions of that type with 4 relevant papers or
more. Prints one JSON object.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.algo.intervals import bootstrap_interval
from srrag.algo.significance import paired_bootstrap
from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.retrieval import Qrels, per_question, read_qrels
from srrag.formats import read_queries
from srrag.hits import unpack_hits
from srrag.index.graph_reader import PARTS, GraphShuffle, GraphWeights
from srrag.pipeline import Pipeline
from srrag.retrieve.fuse import FuseRanks
from srrag.retrieve.questions import EncodeQuestions, question_table
from srrag.retrieve.search_dense import SearchDense
from srrag.retrieve.search_graph import SearchGraph
from srrag.retrieve.search_sparse import SearchSparse
from srrag.units import open_units

BATCH = 64
MIN_PAPERS = 4
METRICS = ("nDCG@10", "recall@100")
ALONE = {part: GraphWeights(**{name: float(name == part) for name in PARTS}) for part in PARTS}
SHUFFLED = {
    "edges_rewired": GraphShuffle(edges=True),
    "communities_permuted": GraphShuffle(communities=True),
}
CHANNELS = (*PARTS, "graph", *SHUFFLED, "dense", "sparse", "hybrid", "hybrid_graph")


def ranking() -> Pipeline:
    """Every channel, and two fusions."""
    graphs = [
        SearchGraph(weights=weights, into=f"hits_{part}", paths=f"paths_{part}")
        for part, weights in ALONE.items()
    ]
    graphs += [
        SearchGraph(shuffle=shuffle, into=f"hits_{name}", paths=f"paths_{name}")
        for name, shuffle in SHUFFLED.items()
    ]
    both = ("hits_sparse", "hits_dense")
    fusions = (
        FuseRanks(channels=both, into="hits_hybrid"),
        FuseRanks(channels=(*both, "hits_graph"), into="hits"),
    )
    first = EncodeQuestions(), SearchSparse(), SearchDense(), SearchGraph()
    return Pipeline(rank=(*first, *graphs, *fusions))


def asked(bench: Path, qrels: Qrels, options: Mapping[str, str]) -> list[dict[str, Any]]:
    """The questions of the half and of the slice."""
    rows = [row for row in read_queries(bench / "queries.jsonl") if row["query_id"] in qrels]
    if "half" in options:
        odd = options["half"] == "blind"
        rows = [r for r in rows if hashlib.sha256(r["query_id"].encode()).digest()[0] % 2 == odd]
    if "slice" in options:
        rows = [row for row in rows if row["query_id"] in of_type(bench, options["slice"])]
    return rows[: int(options.get("questions", len(rows)))]


def of_type(bench: Path, kind: str) -> set[str]:
    """The questions of a type with MIN_PAPERS relevant papers or more."""
    lines = (bench / "queries.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    papers = read_qrels(bench / "qrels" / "test_pmid.tsv")
    return {
        row["_id"]
        for row in rows
        if row["metadata"]["type"] == kind and len(papers.get(row["_id"], ())) >= MIN_PAPERS
    }


def main(argv: Sequence[str]) -> None:
    """Rank and print."""
    root, bench = Path(argv[0]), Path(argv[1])
    options = dict(item.split("=", 1) for item in argv[2:])
    qrels = read_qrels(bench / "qrels" / "test.tsv")
    rows = asked(bench, qrels, options)
    qrels = {row["query_id"]: qrels[row["query_id"]] for row in rows}
    config = configure("evaluate", [f"root={root}", "pipeline=graph", f"bench.path={bench}"])
    pipeline = ranking()
    at = factory.pipeline_run(config, pipeline).place(factory.place(config))
    run, units = pipeline.open(at), open_units(at)
    found: dict[str, dict[str, list[str]]] = {name: {} for name in CHANNELS}
    for start in range(0, len(rows), BATCH):
        batch: pa.Table = run(question_table(rows[start : start + BATCH]))
        for name in CHANNELS:
            column = "hits" if name == "hybrid_graph" else f"hits_{name}"
            ids, _, offsets = unpack_hits(batch[column])
            keys = units.document_keys(ids.to_pylist()).to_pylist()
            for row, query in enumerate(batch["query_id"].to_pylist()):
                found[name][query] = keys[offsets[row] : offsets[row + 1]]
    print(json.dumps({"questions": len(rows), **told(found, qrels)}))


def told(found: Mapping[str, Mapping[str, list[str]]], qrels: Qrels) -> dict[str, Any]:
    """The figures of each channel, and what the graph changes in the fusion."""
    values = {}
    table: dict[str, Any] = {}
    for name, ranked in found.items():
        lists = {query: dict.fromkeys(keys) for query, keys in ranked.items()}
        values[name] = per_question(
            qrels, {q: {key: 1 / n for n, key in enumerate(keys, 1)} for q, keys in lists.items()}
        )
        new = [key for q, keys in lists.items() for key in keys
               if key not in found["dense"][q] and qrels[q].get(key, 0) > 0]  # fmt: skip
        means = {m: [round(x, 4) for x in bootstrap_interval(values[name][m])] for m in METRICS}
        table[name] = {**means, "relevant_outside_dense": len(new)}
    pairs = {m: (values["hybrid_graph"][m], values["hybrid"][m]) for m in METRICS}
    change = {m: [round(x, 4) for x in paired_bootstrap(*pair)] for m, pair in pairs.items()}
    return {"channels": table, "hybrid_graph - hybrid": change}


if __name__ == "__main__":
    main(sys.argv[1:])
