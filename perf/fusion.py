"""What rankings find, by window and by document, what they do to the block, and what they cost.

    python -m perf.fusion ROOT D/rehab hybrid hybrid_maxsim 'srrag;pipeline.…=…' questions=100 K=V …

A system is a pipeline of `conf/pipeline`, with settings of its own after semicolons; other settings
go to every system. For each: nDCG@10 and recall@100 of what the set judges, nDCG@10 of documents
(passages of one PMID are one, the gold of the best counts), distinct documents among the first 12
windows, the share of gold documents among them, each with its 95 % interval and the paired
difference to the first system; and milliseconds of processor time a question (its encoding
included), the mean, p50 and p99 over batches of `batch=` questions (1). `in_sample` counts the
questions that a fitted part of the system has seen; `unseen=true` leaves out what that of any
system has. `questions=N` keeps N, drawn by the hash of their ids, `slice=list` questions of that
type with 4 relevant papers or more. Prints one JSON object, and each system's on stderr as it is
done.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perf.graph_parts import of_type
from srrag.algo.intervals import bootstrap_interval
from srrag.algo.significance import paired_bootstrap
from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.retrieval import Qrels, per_question, read_qrels
from srrag.experiment.in_sample import in_sample
from srrag.figures import measured
from srrag.formats import read_queries
from srrag.hits import unpack_hits
from srrag.pipeline import Pipeline
from srrag.retrieve.questions import question_table
from srrag.step import Place
from srrag.storage.store import Store
from srrag.units import Units, open_units

BLOCK = 12
OWN = ("questions", "slice", "batch", "unseen")
Floats = npt.NDArray[np.float64]
Rows = Sequence[dict[str, Any]]


def ranked(
    pipeline: Pipeline, at: Place, rows: Rows, size: int
) -> tuple[list[tuple[list[str], list[str]]], Floats]:
    """The judged ids and the documents of every question's windows, and its milliseconds."""
    rank, units = pipeline.ranking().open(at), open_units(at)
    rank(question_table(rows[:1]))
    found, spent = [], []
    for start in range(0, len(rows), size):
        batch: pa.Table = question_table(rows[start : start + size])
        began = time.process_time()
        table = rank(batch)
        spent += [1000 * (time.process_time() - began) / batch.num_rows] * batch.num_rows
        ids, _, offsets = unpack_hits(table["hits"])
        for a, b in pairwise(offsets.tolist()):
            windows = ids[a:b].to_pylist()
            told = units.document_keys(windows), units.article_keys(windows)
            found.append((told[0].to_pylist(), told[1].to_pylist()))
    return found, np.array(spent)


def values(
    found: Sequence[tuple[list[str], list[str]]], rows: Rows, gold: Sequence[Qrels]
) -> dict[str, Floats]:
    """Each figure by question; `gold` is that of judged ids, and that of documents."""
    names = [row["query_id"] for row in rows]
    runs = [
        {
            q: {d: 1 / n for n, d in enumerate(dict.fromkeys(each[of]), 1)}
            for q, each in zip(names, found, strict=True)
        }
        for of in (0, 1)
    ]
    order = np.argsort(np.argsort(names))
    windows, documents = (per_question(g, run) for g, run in zip(gold, runs, strict=True))
    blocks = [set(each[1][:BLOCK]) for each in found]
    relevant = [{d for d, r in gold[1][name].items() if r > 0} for name in names]
    shares = [len(g & b) / len(g) if g else 0.0 for g, b in zip(relevant, blocks, strict=True)]
    return {
        "nDCG@10": windows["nDCG@10"][order],
        "recall@100": windows["recall@100"][order],
        "document_nDCG@10": documents["nDCG@10"][order],
        "documents_in_block": np.array([float(len(each)) for each in blocks]),
        "gold_documents_in_block": np.array(shares),
    }


def of_documents(qrels: Qrels, units: Units) -> Qrels:
    """The gold by document: the best relevance of its passages."""
    told = units.documents
    pairs = zip(*(told[key].to_pylist() for key in ("source_id", "pmid")), strict=True)
    names = {source: pmid or source for source, pmid in pairs}
    found: Qrels = {}
    for query, passages in qrels.items():
        for passage, relevance in passages.items():
            name, known = names.get(passage, passage), found.setdefault(query, {})
            known[name] = max(known.get(name, 0), relevance)
    return found


def asked(
    bench: Path, qrels: Qrels, options: Mapping[str, str], left_out: Set[str] = frozenset()
) -> Rows:
    """The questions of the slice, and of the draw."""
    judged = qrels.keys() - left_out
    rows = [row for row in read_queries(bench / "queries.jsonl") if row["query_id"] in judged]
    if "slice" in options:
        kept = of_type(bench, options["slice"])
        rows = [row for row in rows if row["query_id"] in kept]
    drawn = sorted(rows, key=lambda row: hashlib.sha256(row["query_id"].encode()).hexdigest())
    return drawn[: int(options.get("questions", len(rows)))]


def told(found: Mapping[str, Floats], first: Mapping[str, Floats]) -> dict[str, Any]:
    """Figures of a system, and its differences to the first."""
    stated: dict[str, Any] = {}
    for name, each in found.items():
        stated[name] = measured(bootstrap_interval(each), len(each))
        if found is not first:
            more = paired_bootstrap(each, first[name])
            stated[name]["difference"] = [round(x, 4) for x in more[:3]]
    return stated


def main(argv: Sequence[str]) -> None:
    """Measure each system and print the figures."""
    root, bench = Path(argv[0]), Path(argv[1])
    systems = [item for item in argv[2:] if ";" in item or "=" not in item]
    given = [item for item in argv[2:] if item not in systems]
    options = dict(item.split("=", 1) for item in given if item.partition("=")[0] in OWN)
    settings = [f"root={root}", f"bench.path={bench}"]
    settings += [item for item in given if item.partition("=")[0] not in OWN]
    qrels = read_qrels(bench / "qrels" / "test.tsv")
    made = {}
    for system in systems:
        name, *own = system.split(";")
        config = configure("evaluate", [f"pipeline={name}", *settings, *own])
        pipeline: Pipeline = factory.make(config["pipeline"], "pipeline")
        at = factory.pipeline_run(config, pipeline.ranking()).place(factory.place(config))
        made[system] = pipeline, at
    everything = asked(bench, qrels, {})
    seen = [in_sample(each.rank, everything, "apart").questions for each, _ in made.values()]
    left_out = frozenset().union(*seen) if options.get("unseen") == "true" else frozenset()
    rows = asked(bench, qrels, options, left_out)
    qrels = {row["query_id"]: qrels[row["query_id"]] for row in rows}
    gold = qrels, of_documents(qrels, Units(Store(root).artifacts("default")["units"]))
    measurements: dict[str, Any] = {}
    first: dict[str, Floats] = {}
    for system, (pipeline, at) in made.items():
        parts = in_sample(pipeline.rank, rows, "apart").parts
        found, spent = ranked(pipeline, at, rows, int(options.get("batch", 1)))
        here = values(found, rows, gold)
        first = first or here
        p50, p99 = np.quantile(spent, (0.5, 0.99))
        cost = {"mean": spent.mean(), "p50": p50, "p99": p99}
        measurements[system] = {
            **told(here, first),
            "cpu_ms": {key: round(float(each), 1) for key, each in cost.items()},
            "in_sample": {part: len(ids) for part, ids in parts.items()},
        }
        print(json.dumps({system: measurements[system]}), file=sys.stderr, flush=True)
    print(json.dumps({"questions": len(rows), "systems": measurements}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
