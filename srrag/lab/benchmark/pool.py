"""Check if the baseline finds the seed window, and pool candidates (SR-RAG, section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from srrag.core.rows import Row, rejected
from srrag.core.units import Units
from srrag.lab.benchmark.relations import POOL, POOLED
from srrag.llm.completion import Fault

MAIN, CHALLENGE = "main", "challenge"
_WINDOW = ("unit_id", "doc_id", "grade", "section", "char_start", "char_end", "text")
_DOCUMENT = ("source_id", "title", "year")


def pooled(
    questions: pa.Table,
    units: Units,
    accessible: pa.Table,
    rankings: Sequence[pa.Table],
    at: int,
    depth: int,
) -> pa.Table:
    """Add track and candidates to QUESTIONED; returns POOLED.

    A question is `main` if the baseline (`accessible`) ranks its seed window among the first `at`,
    else `challenge`. The pool has `depth` windows: the seed, then those of all rankings and the
    baseline, interleaved by rank. A question that a pipeline rejected is rejected. Rankings are
    tables with columns `hits` and `reject`, one row for each row of `questions`, in order.
    """
    columns = [_listed(table) for table in (*rankings, accessible)]
    rows = []
    for number, question in enumerate(questions.to_pylist()):
        ranked = [column[number] for column in columns]
        lost = next((each for each in ranked if isinstance(each, Fault)), None)
        if lost is not None:
            blank: Row = {"track": "", "seed_rank": 0, "pool": []}
            rows.append({**question, **blank, **rejected("retrieval", lost)})
            continue
        seed, baseline = question["unit_id"], ranked[-1]
        rank = baseline.index(seed) + 1 if seed in baseline else 0
        pool = in_turn([[seed], *ranked], depth)
        track = MAIN if 0 < rank <= at else CHALLENGE
        rows.append({**question, "track": track, "seed_rank": rank, "pool": pool})
    found = _candidates(units, sorted({name for row in rows for name in row["pool"]}))
    for row in rows:
        row["pool"] = [found[name] for name in row["pool"]]
    return pa.Table.from_pylist(rows, schema=POOLED)


def in_turn(rankings: Sequence[Sequence[str]], depth: int | None = None) -> list[str]:
    """Interleave rankings: the first of each, then the second of each, …, without duplicates."""
    turns = (name for turn in zip_longest(*rankings) for name in turn if name is not None)
    return list(dict.fromkeys(turns))[:depth]


def _listed(table: pa.Table) -> list[Any]:
    """Return the ranked windows of each question, or the reject of a failed one."""
    rows = table.select(["hits", "reject"]).to_pylist()
    return [
        Fault(row["reject"]["reason"], row["reject"]["detail"])
        if row["reject"]
        else [hit["unit_id"] for hit in row["hits"]]
        for row in rows
    ]


def _candidates(units: Units, unit_ids: Sequence[str]) -> dict[str, Row]:
    windows = units.take(unit_ids, _WINDOW)
    documents = units.take_documents(windows["doc_id"].to_pylist()).select(list(_DOCUMENT))
    table = pa.table({**_columns(windows), **_columns(documents)})
    rows = table.select([item.name for item in POOL.value_type]).to_pylist()
    return {row["unit_id"]: row for row in rows}


def _columns(table: pa.Table) -> dict[str, Any]:
    return {name: table[name] for name in table.column_names}
