"""What a ranking does to documents, and what it costs.

    python -m perf.fusion ROOT D/rehab hybrid hybrid_maxsim questions=100 KEY=VALUE …

For each pipeline: nDCG@10 of documents (passages of one PMID are one, the gold of the best counts),
distinct documents among the first 12 windows, the share of gold documents among them, and CPU
milliseconds a question (ranking one question at a time, its encoding included). Prints one JSON
object; other settings go to every pipeline.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.retrieval import Qrels, per_question, read_qrels
from srrag.formats import read_queries
from srrag.hits import unpack_hits
from srrag.pipeline import Pipeline
from srrag.retrieve.questions import question_table
from srrag.step import Place
from srrag.storage.store import Store
from srrag.units import Units, open_units

BLOCK = 12


def measured(
    name: str, root: Path, rows: Sequence[dict[str, Any]], gold: Qrels, settings: Sequence[str]
) -> dict[str, float]:
    """The figures of a pipeline."""
    config = configure("evaluate", [f"root={root}", f"pipeline={name}", *settings])
    pipeline: Pipeline = factory.make(config["pipeline"], "pipeline")
    at = Place(artifacts=Store(root).artifacts("default"), root=root, threads=1)
    rank, units = pipeline.ranking().open(at), open_units(at)
    rank(question_table(rows[:1]))
    ranked: list[list[str]] = []
    began = time.process_time()
    tables = [rank(question_table([row])) for row in rows]
    spent = time.process_time() - began
    for table in tables:
        ids, _, offsets = unpack_hits(table["hits"])
        (bounds,) = pairwise(offsets.tolist())
        found = ids[bounds[0] : bounds[1]].to_pylist()
        ranked.append(units.article_keys(found).to_pylist())
    run = {
        row["query_id"]: {d: 1 / n for n, d in enumerate(dict.fromkeys(names), start=1)}
        for row, names in zip(rows, ranked, strict=True)
    }
    blocks = [set(names[:BLOCK]) for names in ranked]
    shares = [
        np.mean([d in block for d, relevance in gold[row["query_id"]].items() if relevance])
        for row, block in zip(rows, blocks, strict=True)
    ]
    return {
        "document_nDCG@10": round(float(per_question(gold, run)["nDCG@10"].mean()), 4),
        "documents_in_block": round(float(np.mean([len(block) for block in blocks])), 2),
        "gold_documents_in_block": round(float(np.mean(shares)), 4),
        "cpu_ms": round(1000 * spent / len(rows), 1),
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


def main(argv: Sequence[str]) -> None:
    """Measure each pipeline and print the figures."""
    root, bench = Path(argv[0]), Path(argv[1])
    given = [item for item in argv[2:] if "=" in item]
    most = next((int(i.partition("=")[2]) for i in given if i.startswith("questions=")), 0)
    settings = [f"bench.path={bench}", *(i for i in given if not i.startswith("questions="))]
    qrels = read_qrels(bench / "qrels" / "test.tsv")
    rows = [row for row in read_queries(bench / "queries.jsonl") if row["query_id"] in qrels]
    rows = rows[: most or len(rows)]
    units = Units(Store(root).artifacts("default")["units"])
    gold = of_documents({row["query_id"]: qrels[row["query_id"]] for row in rows}, units)
    names = [item for item in argv[2:] if "=" not in item]
    found = {name: measured(name, root, rows, gold, settings) for name in names}
    print(json.dumps({"questions": len(rows), "systems": found}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
