"""The questions to look at first, with full details: failures, then the largest losses.

The details of a question are packed (JSON, deflated, base64), so that a page holds many of them
and opens one at a time.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.answer.record import AnswerRecord
from srrag.core.schema import EVIDENCE, empty_value
from srrag.lab.report.results import STRATA, Results
from srrag.lab.report.row import Row
from srrag.lab.report.view import BenchmarkView, Column

MAX_EVIDENCE = 20
"""Pieces of evidence that are shown of an answer; those that it cites are shown whatever."""
LEFT_OUT = {
    "question": "the report has the text of the benchmark",
    "choice": "`option` is its text",
    "papers": "the report lists the evidence, each with its paper and status",
    "left_out": "named by a note",
    "support": "what it dropped and put right is told by a note",
    "degraded": "told by notes",
    "error": "a failed row has its reject",
    "clinical": "the question page reads it",
    "rewritten_from": "a benchmark has no conversation",
    **dict.fromkeys(
        ("usage", "batch_rows", "off", "id", "pipeline", "version"), "told of the whole run"
    ),
}
"""Fields of an answer that the report does not show of a question, with the reason."""
_BLANK: dict[str, Any] = {
    "answer": "", "state": "not", "answer_note": "", "model": "", "sentences": [],
    "evidence": [], "trace": [], "reject": None,
}  # fmt: skip


@dataclass(frozen=True)
class Looked:
    """A question of a system: its value and the baseline's on the metric it is sorted by."""

    query_id: str
    text: str
    value: float | None
    baseline: float | None
    state: str
    packed: str


@dataclass(frozen=True)
class Drilldown:
    """The questions of a system that are shown, of how many, and by which metric."""

    row: str
    metric: Column | None
    total: int
    failed: int
    shown: tuple[Looked, ...]

    @property
    def said(self) -> str:
        """Say how many of the questions are shown, and which details."""
        count = len(self.shown)
        text = f"all {count:,}" if count == self.total else f"{count:,} of {self.total:,}"
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{text} questions{failed}{f', {self.metric.title}' if self.metric else ''}"


@dataclass(frozen=True)
class _Known:
    """What is known of the questions of a benchmark and of a system's values on them."""

    gold: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Mapping[str, tuple[float | None, str]]]
    others: Mapping[str, Mapping[str, tuple[float | None, str]]]


def drilldown(results: Results, bench: BenchmarkView, row: Row, worst: int | None) -> Drilldown:
    """The `worst` questions of a system; None for all."""
    metric = bench.main[0] if bench.main else None
    known = _Known(
        {each["query_id"]: each for each in _of(results.gold, "bench", bench.name).to_pylist()},
        _values(results.questions, row.name),
        _values(results.questions, row.baseline) if row.baseline else {},
    )
    answers = results.answers(row.name)
    states = _states(row, answers)
    names = list(dict.fromkeys([*states, *known.values]))
    names.sort(key=lambda name: _rank(name, states.get(name, ""), known, metric))
    shown = names if worst is None else names[:worst]
    told = {each["query_id"]: each for each in _rows_of(answers, shown)}
    judged = _judged(results.judgements(row.name), shown)
    looked = tuple(
        _looked(name, states.get(name, ""), known, metric, told.get(name, {}), judged.get(name, []))
        for name in shown
    )
    failed = sum(state.startswith("failed") for state in states.values())
    return Drilldown(row.name, metric, len(names), failed, looked)


def _of(table: pa.Table, column: str, value: str) -> pa.Table:
    return table.filter(pc.equal(table[column], value))


def _values(questions: pa.Table, row: str) -> dict[str, dict[str, tuple[float | None, str]]]:
    found: dict[str, dict[str, tuple[float | None, str]]] = {}
    for each in _of(questions, "row", row).to_pylist():
        own = found.setdefault(each["query_id"], {})
        own[each["metric"]] = (each["value"], each["reason"])
    return found


def _states(row: Row, answers: pa.Table | None) -> dict[str, str]:
    """Return how each question ended: "" for success."""
    found: dict[str, str] = {}
    if answers is not None:
        table = answers.select(
            [n for n in ("query_id", "reject", "state") if n in answers.column_names]
        )
        for each in table.to_pylist():
            reject = each.get("reject")
            abstained = "abstained" if each.get("state") == "not" else ""
            found[each["query_id"]] = f"failed: {reject['reason']}" if reject else abstained
    for failure in row.failures:
        found[failure.query_id] = found.get(failure.query_id) or f"failed: {failure.reason}"
    return found


def _rank(name: str, state: str, known: _Known, metric: Column | None) -> tuple[Any, ...]:
    """Failures, then the largest losses against the baseline, then the lowest values."""
    ours, theirs = _pair(name, known, metric)
    sign = -1.0 if metric is not None and metric.lower else 1.0
    gain = 0.0 if ours is None or theirs is None else sign * (ours - theirs)
    return (
        not state.startswith("failed"),
        ours is None,
        gain,
        0.0 if ours is None else sign * ours,
        name,
    )


def _pair(name: str, known: _Known, metric: Column | None) -> tuple[float | None, float | None]:
    if metric is None:
        return None, None
    none: tuple[float | None, str] = (None, "")
    ours = known.values.get(name, {}).get(metric.name, none)[0]
    return ours, known.others.get(name, {}).get(metric.name, none)[0]


def _judged(judgements: pa.Table | None, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the judgements by question; failed ones have no value."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in _rows_of(judgements, names):
        lost = row["reject"]
        found.setdefault(row["query_id"], []).append(
            {
                "metric": row["metric"],
                "item": row["item"],
                "value": None if lost else row["value"],
                "reason": f"not judged: {lost['reason']}" if lost else row["reason"],
            }
        )
    return found


def _rows_of(table: pa.Table | None, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of these questions."""
    if table is None:
        return []
    rows = table.filter(pc.is_in(table["query_id"], pa.array(names, pa.string())))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _looked(
    name: str,
    state: str,
    known: _Known,
    metric: Column | None,
    told: dict[str, Any],
    judged: list[dict[str, Any]],
) -> Looked:
    gold = known.gold.get(name, {})
    text = gold.get("text") or told.get("text") or ""
    ours, theirs = _pair(name, known, metric)
    detail = {
        "text": text,
        "strata": {kind: gold.get(kind) for kind in STRATA if gold.get(kind)},
        "reference": gold.get("reference", ""),
        "nuggets": gold.get("nuggets", []),
        "values": _compared(name, known),
        "judged": judged,
        **_answered(told, set(gold.get("relevant", []))),
    }
    return Looked(name, text, ours, theirs, state, pack(detail))


def _compared(name: str, known: _Known) -> list[list[Any]]:
    """Return metric, value, the baseline's value, and the reason for a missing value."""
    others = known.others.get(name, {})
    return [
        [metric, value, others.get(metric, (None, ""))[0], reason]
        for metric, (value, reason) in known.values.get(name, {}).items()
    ]


def _answered(told: dict[str, Any], relevant: set[str]) -> dict[str, Any]:
    """Return an answer with its evidence and trace, or the first windows of a ranking.

    The answer is made of all its evidence, or citations and notes of later pieces would be lost.
    """
    if not told:
        return {"kept": False}
    listed = told["evidence"] if "evidence" in told else _windows(told.get("hits") or [])
    row = {**_BLANK, **told, "evidence": listed}
    record = AnswerRecord.of({**row, "reject": None}, explained=True)
    reply, cited = record.json, {item.number for item in record.cited}
    reply["evidence"] = [
        item
        for item in reply["evidence"]
        if item["number"] <= MAX_EVIDENCE or item["number"] in cited
    ]
    for item in reply["evidence"]:
        item["relevant"] = bool(relevant & {item["unit_id"], item["doc_id"], item["source_id"]})
    return {"kept": True, **reply, "ranking": "answer" not in told, "reject": row["reject"]}


def _windows(hits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn hits into evidence that has only window ids."""
    blank = {item.name: empty_value(item.type) for item in EVIDENCE.value_type}
    return [
        {**blank, "evidence_id": hit["unit_id"], "unit_id": hit["unit_id"], "score": hit["score"]}
        | {"kind": "window", "char_start": -1, "char_end": -1}
        for hit in hits[:MAX_EVIDENCE]
    ]


def pack(detail: Mapping[str, Any]) -> str:
    """JSON, deflated without a header, in base64: a browser unpacks it as "deflate-raw"."""
    text = json.dumps(detail, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(deflate.compress(text.encode()) + deflate.flush()).decode()
