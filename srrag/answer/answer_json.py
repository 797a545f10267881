"""Render a row of ANSWERS as JSON for people and programs, with citations by evidence number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srrag.answer.provenance import why
from srrag.answer.settle_checks import support_line
from srrag.grades import STUDIES
from srrag.standing import standing_note

Row = dict[str, Any]

_EXPANSION = (
    "anchors", "subquestions", "hyde_passages", "hyde_violations", "rationale", "reformulations",
    "keywords", "tree_trace",
)  # fmt: skip


def answer_json(row: Mapping[str, Any]) -> Row:
    """Render an answered row: sentences with evidence numbers, evidence with its quotes."""
    numbers = {item["evidence_id"]: n for n, item in enumerate(row["evidence"], start=1)}
    return {
        "question": row["text"],
        "answer": row["answer"],
        "state": row["state"],
        **_chosen(row),
        "missing": row.get("missing", ""),
        "note": row["answer_note"],
        "model": row["model"],
        "sentences": [
            {"text": each["text"], "citations": [numbers[item] for item in each["evidence_ids"]]}
            for each in row["sentences"]
        ],
        "evidence": [
            {
                "number": numbers[item["evidence_id"]],
                **item,
                "study": STUDIES.get(item["grade"], ""),
                "quotes": _of(item, row.get("snippets", ())),
                "mismatches": _of(item, row.get("mismatches", ())),
                "figures": _of(item, row.get("figures", ())),
            }
            for item in row["evidence"]
        ],
        **({"notice": row["notice"]} if "notice" in row else {}),
        **_standing(row, numbers),
        **_support(row),
        "degraded": degraded(row),
        "trace": {"steps": steps_json(row["trace"])},
    }


def _standing(row: Mapping[str, Any], numbers: Mapping[str, int]) -> Row:
    """Papers that were not cited for their standing, and a line on those that were."""
    cited = {numbers[each] for item in row["sentences"] for each in item["evidence_ids"]}
    left_out = row.get("left_out") or []
    note = standing_note(row["evidence"], cited, left_out)
    return {"left_out": left_out, "standing_note": note}


def _chosen(row: Mapping[str, Any]) -> Row:
    """The index and text of the chosen option; {} without options, both None for no choice."""
    if not (options := row.get("options")) or "choice" not in row:
        return {}
    choice = row["choice"]
    made = 0 <= choice < len(options)
    return {"choice": choice if made else None, "option": options[choice] if made else None}


def degraded(row: Mapping[str, Any]) -> list[Row]:
    """The steps that failed and were skipped, each with its fault."""
    steps = [*row["trace"], *(row.get("search_trace") or ())]
    found = [(each["step"], each.get("fault")) for each in steps]
    found += [("Reflect", each.get("fault")) for each in row.get("rounds") or ()]
    return [{"step": step, "fault": fault} for step, fault in found if fault]


def _support(row: Mapping[str, Any]) -> Row:
    """What became of checked sentences, with a line for the reader; {} without a check."""
    if "support" not in row:
        return {}
    dropped = row["unsupported"]
    return {
        "support": {**row["support"], "dropped": dropped},
        "support_note": support_line(dropped),
    }


def steps_json(trace: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The steps of a trace: milliseconds, questions in and out, items for this one."""
    return [
        {
            "step": item["step"],
            "ms": round(1000 * item["seconds"], 2),
            "rows_in": item["rows_in"],
            "rows_out": item["rows_out"],
            **({"items": item["items"]} if item["items"] >= 0 else {}),
            **({"fault": item["fault"]} if item.get("fault") else {}),
        }
        for item in trace
    ]


def trace_json(row: Mapping[str, Any], terms: Mapping[str, Any] | None = None) -> Row:
    """Steps, retrieval rounds, expansions of the question, and why each piece of evidence is there.

    `terms` are those of BETR, if the pipeline ranks by it.
    """
    found: Row = {"steps": steps_json(row["trace"])}
    if "rounds" in row:
        inner = steps_json(row["search_trace"])
        size = len(inner) // max(1, len(row["rounds"]))
        found["rounds"] = [
            {**each, "steps": inner[n * size : (n + 1) * size]}
            for n, each in enumerate(row["rounds"])
        ]
    made = {name: row[name] for name in _EXPANSION if row.get(name)}
    return {**found, **made, "why": why(row, terms)}


def _of(item: Row, column: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The items of another column that are about this piece of evidence."""
    return [
        {key: value for key, value in each.items() if key != "evidence_id"}
        for each in column
        if each["evidence_id"] == item["evidence_id"]
    ]
