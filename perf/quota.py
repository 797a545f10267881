"""`python -m perf.quota ROOT BENCH PIPELINE [questions=N] [grade=B] [K=V …]`: what a quota earns.

Ranks the questions once, then makes blocks with each quota of a grade (A) and each margin that its
window may lack (`SelectEvidence`). The best by gold windows in the block is chosen on the questions
whose fold is even (`question_fold`), and told for the others beside no quota and Table 1's margin:
gold windows and gold papers in the block, and the share of blocks that hold that grade.
Prints one JSON object.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perf.fusion import asked, of_documents
from srrag.algo.folds import question_fold
from srrag.algo.intervals import bootstrap_interval
from srrag.algo.significance import paired_bootstrap
from srrag.answer.select import SelectEvidence
from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.retrieval import Qrels, read_qrels
from srrag.retrieve.questions import question_table
from srrag.step import within
from srrag.storage.store import Store
from srrag.units import Units

BATCH = 32
OWN = ("questions", "grade")
TABLE_1 = (1, 0.5151)
SETTINGS = ((0, 0.0), *((q, m) for q in (1, 2) for m in (0.0, 0.1, 0.2, 0.5151, 1.0, 3.0)))
Floats = npt.NDArray[np.float64]


def blocks(table: pa.Table, select: SelectEvidence, at: Any) -> list[list[dict[str, Any]]]:
    """The evidence of each question."""
    found: list[list[dict[str, Any]]] = select.open(at)(table)["evidence"].to_pylist()
    return found


def shares(block: Sequence[Sequence[dict[str, Any]]], gold: Sequence[Qrels], ids: Sequence[str],
           units: Units, grade: str) -> Floats:  # fmt: skip
    """Gold windows in the block, gold papers in it, and whether the grade is: (questions, 3)."""
    rows = []
    for name, pieces in zip(ids, block, strict=True):
        windows = [each["unit_id"] for each in pieces]
        told = units.document_keys(windows).to_pylist(), units.article_keys(windows).to_pylist()
        held = []
        for judged, found in zip(gold, told, strict=True):
            relevant = {d for d, r in judged[name].items() if r > 0}
            held.append(len(relevant & set(found)) / max(1, len(relevant)))
        rows.append([*held, float(any(each["grade"] == grade for each in pieces))])
    return np.array(rows)


def main(argv: Sequence[str]) -> None:
    """Rank, choose on one half, and tell of the other."""
    root, bench, name = Path(argv[0]), Path(argv[1]), argv[2]
    options = dict(item.split("=", 1) for item in argv[3:] if item.partition("=")[0] in OWN)
    settings = [item for item in argv[3:] if item.partition("=")[0] not in OWN]
    grade = options.get("grade", "A")
    given = [f"root={root}", f"bench.path={bench}", f"pipeline={name}", *settings]
    config = configure("evaluate", given)
    pipeline = factory.make(config["pipeline"], "pipeline")
    (select,) = (s for s in within(pipeline.answer) if isinstance(s, SelectEvidence))
    at = factory.pipeline_run(config, pipeline).place(factory.place(config))
    qrels = read_qrels(bench / "qrels" / "test.tsv")
    rows = asked(bench, qrels, options)
    units = Units(Store(root).artifacts("default")["units"])
    gold = qrels, of_documents(qrels, units)
    rank = pipeline.ranking().open(at)
    found: dict[tuple[int, float], list[Floats]] = {each: [] for each in SETTINGS}
    for start in range(0, len(rows), BATCH):
        table = rank(question_table(rows[start : start + BATCH])).select(["query_id", "hits"])
        ids = table["query_id"].to_pylist()
        for quota, margin in SETTINGS:
            one = dataclasses.replace(select, quota=quota, quota_margin=margin, quota_grade=grade)
            found[quota, margin].append(shares(blocks(table, one, at), gold, ids, units, grade))
    figures = {each: np.concatenate(parts) for each, parts in found.items()}
    even = np.array([question_fold(row["text"]) % 2 == 0 for row in rows])
    best = max(SETTINGS, key=lambda each: figures[each][even, 0].mean())
    none = figures[0, 0.0]
    told = {}
    for label, each in {"none": (0, 0.0), "table_1": TABLE_1, "learnt": best}.items():
        here = figures[each][~even]
        names = ("gold_windows", "gold_papers", "of_grade")
        told[label] = {
            "setting": each,
            **{n: np.round(bootstrap_interval(here[:, k]), 4).tolist()
               for k, n in enumerate(names)},
            "difference": {n: np.round(paired_bootstrap(here[:, k], none[~even, k])[:3], 4).tolist()
                           for k, n in enumerate(names)},
        }  # fmt: skip
    chosen_on = {f"{q} {m}": round(float(figures[q, m][even, 0].mean()), 4) for q, m in SETTINGS}
    sizes = {"learnt_on": int(even.sum()), "told_of": int((~even).sum())}
    print(json.dumps({**sizes, "halves": told, "gold_windows_of_the_first_half": chosen_on}))


if __name__ == "__main__":
    main(sys.argv[1:])
