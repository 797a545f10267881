"""Retrieval metrics on BEIR qrels, computed by ir-measures: one value a question."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import numpy.typing as npt
from ir_measures import RR, P, R, Success, nDCG

Qrels = dict[str, dict[str, int]]
Run = Mapping[str, Mapping[str, float]]

CUTOFFS = (10,)
DEEP = (100, 300)
"""Where recall is measured beside the cut-offs: how much a reranker could still find."""

_MISS = "miss@"


def measures(cutoffs: Sequence[int] = CUTOFFS) -> dict[str, Any]:
    """Return ir-measures objects by our metric names; the miss rate is 1 - success.

    Each metric has all cut-offs in ascending order, recall those of DEEP too. Raises ValueError for
    a cut-off that is not a whole number above 0, and for an empty list.
    """
    wrong = [k for k in cutoffs if isinstance(k, bool) or not isinstance(k, int) or k < 1]
    if wrong or not cutoffs:
        raise ValueError(f"cut-offs {list(cutoffs)}: whole numbers above 0 are needed")
    depths = sorted(set(cutoffs))
    recalled = sorted({*depths, *DEEP})
    kinds = {"nDCG": nDCG, "recall": R, "MRR": RR, "P": P, "miss": Success}
    return {
        f"{name}@{k}": kind @ k
        for name, kind in kinds.items()
        for k in (recalled if name == "recall" else depths)
    }


def lower_is_better(name: str) -> bool:
    """Whether less of a metric is better."""
    return name.startswith(_MISS)


def read_qrels(path: Path) -> Qrels:
    """Read BEIR qrels (query-id, corpus-id, score); raises ValueError that names file and line."""
    qrels: Qrels = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        next(rows, None)
        for number, row in enumerate(rows, start=2):
            try:
                query, document, score = row[0], row[1], int(row[2])
            except (IndexError, ValueError) as error:
                raise ValueError(f"{path}:{number}: not query-id, corpus-id, score") from error
            qrels.setdefault(query, {})[document] = score
    if not qrels:
        raise ValueError(f"{path}: there is no judgement")
    return qrels


def per_question(
    qrels: Qrels, run: Run, cutoffs: Sequence[int] = CUTOFFS
) -> dict[str, npt.NDArray[np.float64]]:
    """Return each metric's values, shape (questions,), ordered by the sorted judged ids.

    A question that the run lacks (it failed, or retrieval found nothing) counts 0, never NaN; its
    miss counts 1.
    """
    order = {query: place for place, query in enumerate(sorted(qrels))}
    asked = measures(cutoffs)
    values = {name: np.zeros(len(order)) for name in asked}
    names = {str(measure): name for name, measure in asked.items()}
    found = {query: dict(documents) for query, documents in run.items() if documents}
    for metric in ir_measures.iter_calc(list(asked.values()), qrels, found):
        if metric.query_id in order:
            values[names[str(metric.measure)]][order[metric.query_id]] = metric.value
    for name in filter(lower_is_better, values):
        values[name] = 1.0 - values[name]
    return values


def coverage(
    statements: Mapping[str, Sequence[Collection[str]]], run: Run, depth: int = 10
) -> npt.NDArray[np.float64]:
    """Share of each question's must-have statements that the first `depth` documents support.

    `statements` lists, for each statement of a question, the documents that support it. Values have
    the order of the sorted questions (coverage@k of rethinking-rag, section 2.2). Raises ValueError
    for a question without a statement.
    """
    shares = []
    for query in sorted(statements):
        if not statements[query]:
            raise ValueError(f"question {query}: there is no statement to cover")
        ranked = run.get(query, {})
        best = set(sorted(ranked, key=lambda name: -ranked[name])[:depth])
        shares.append(
            sum(not best.isdisjoint(s) for s in statements[query]) / len(statements[query])
        )
    return np.array(shares, np.float64)
