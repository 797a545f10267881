"""Results of two systems over three questions, made by hand: one of them all but hostile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.figures import BaselineDifference, Figure
from srrag.core.pipeline import TRACE
from srrag.core.schema import EVIDENCE, FOUND, REJECT, SENTENCES
from srrag.lab.report.results import (
    gold_table,
    scored,
    write_answers,
    write_judgements,
    write_results,
)
from srrag.lab.report.row import Failure, Row

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"> & <b>bold</b> \u2028 %%"
QUESTIONS = ("q1", "q2", "q3")

ANSWERS = pa.schema(
    [
        pa.field("query_id", pa.string()),
        pa.field("text", pa.string()),
        pa.field("found", FOUND),
        pa.field("evidence", EVIDENCE),
        pa.field("answer", pa.string()),
        pa.field("sentences", SENTENCES),
        pa.field("state", pa.string()),
        pa.field("answer_note", pa.string()),
        pa.field("trace", TRACE),
        pa.field("reject", REJECT),
    ]
)


def toy_rows() -> list[Row]:
    """A baseline, a system, and one that never ran."""
    versions, models = {"srrag": "0.1.0", "torch": "2"}, {"toy": "sha256:c0ffee"}
    common: dict[str, Any] = {
        "bench": "toy", "questions": 3, "versions": versions, "models": models, "judge": "rules",
        "seconds": 1.5, "fingerprints": {"windows": "abc", "answers": "def"},
    }  # fmt: skip
    figure = Figure(value=0.5, low=0.25, high=0.75, n=2, left_out=1)
    none = Figure(value=None, reason="no question has nuggets", n=0)
    return [
        Row(name="plain", command="srrag evaluate pipeline=bm25", abstained=1,
            metrics={"coverage": figure, "nuggets": none}, **common),
        Row(name="ours", command="srrag evaluate pipeline=srrag", baseline="plain",
            overrides=("pipeline=srrag",), abstained=0, failed=1, missing={"failed: timeout": 1},
            failures=(Failure(query_id="q2", stage="ComposeAnswer", reason="timeout"),),
            tokens_in=1200, tokens_out=340, calls=3, usd=0.0123,
            metrics={
                "coverage": Figure(value=0.9, low=0.8, high=1.0, n=2, failed=1),
                "nuggets": none,
            },
            difference={
                "coverage": BaselineDifference(value=0.4, low=0.1, high=0.7, p=0.01, p_holm=0.02),
                "nuggets": BaselineDifference(value=None, reason="no question of both has nuggets"),
            }, **common),
        Row(name="lost/model", command="srrag evaluate engine=gone", state="failed",
            reason="engine 'gone' is not up", baseline="plain", **common),
    ]  # fmt: skip


def toy_scores() -> list[pa.Table]:
    """The values behind them."""
    kept, left = QUESTIONS[:2], {"q3": "no statement"}
    return [
        scored("plain", "coverage", kept, np.array([1.0, 0.0]), None, left),
        scored("ours", "coverage", kept, np.array([0.8, 1.0]), None, left),
    ]


def toy_gold() -> pa.Table:
    """Three questions in two conditions."""
    strata = [("ACL", "A", "sufficient"), ("stroke", "B", "insufficient"), ("ACL", None, None)]
    return gold_table(
        "toy",
        [
            {
                "query_id": name, "text": f"Question {name}? {HOSTILE}", "exact_answer": "Yes.",
                "nuggets": [{"text": "It helps"}], "gold": [{"doc": "s1"}],
                "condition": condition, "grade": grade, "certainty": certainty,
            }
            for name, (condition, grade, certainty) in zip(QUESTIONS, strata, strict=True)
        ],
    )  # fmt: skip


def toy_answers() -> pa.Table:
    """An answer, a failure and an abstention."""
    evidence = [
        {"evidence_id": f"e{n}", "unit_id": f"u{n}", "doc_id": f"d{n}", "source_id": f"s{n}",
         "pmid": "123" if n == 1 else "javascript:alert(1)", "grade": "A" if n == 1 else "",
         "title": HOSTILE, "section": "Results", "year": 2020, "text": HOSTILE, "score": 0.5}
        for n in (1, 2)
    ]  # fmt: skip
    trace = [{"step": "SearchSparse", "seconds": 0.1, "rows_in": 3, "rows_out": 2, "items": 2}]
    found = [{"unit_id": "u1", "channel": "dense", "track": "guidelines", "round": 1, "rank": 1,
              "score": 1.0, "entity_id": "", "edge_id": "", "community_id": ""}]  # fmt: skip
    blank: dict[str, Any] = {
        "found": [], "evidence": [], "answer": "", "sentences": [], "state": "not",
        "answer_note": "", "trace": trace, "reject": None,
    }  # fmt: skip
    rows = [
        {**blank, "query_id": "q1", "answer": f"{HOSTILE} [1]", "evidence": evidence,
         "found": found, "state": "answered",
         "sentences": [{"text": HOSTILE, "evidence_ids": ["e1"]}]},
        {**blank, "query_id": "q2",
         "reject": {"stage": "ComposeAnswer", "reason": "timeout", "detail": "no answer in 60 s"}},
        {**blank, "query_id": "q3", "answer": "The evidence does not suffice."},
    ]  # fmt: skip
    return pa.Table.from_pylist([{**row, "text": "Q?"} for row in rows], schema=ANSWERS)


def toy_judgements() -> pa.Table:
    """One judged item, and one on which the judge failed."""
    return pa.table(
        {
            "query_id": ["q1", "q1"],
            "metric": ["coverage", "coverage"],
            "item": ["It helps", "It harms"],
            "value": [1.0, 0.0],
            "reason": [HOSTILE, "not judged: timeout"],
            "reject": pa.array(
                [None, {"stage": "coverage", "reason": "timeout", "detail": ""}], REJECT
            ),
        }
    )


def write_toy(folder: Path) -> Path:
    """Write them all."""
    write_answers(folder, "ours", toy_answers())
    write_judgements(folder, "ours", toy_judgements())
    write_results(folder, toy_rows(), toy_scores(), toy_gold())
    return folder
