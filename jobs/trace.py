"""How an answer came about, for a terminal: the steps as a tree, and why each window is there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from srrag.answer.why import why

_WIDTH = 96
Row = dict[str, Any]


def steps(trace: list[Row]) -> list[Row]:
    """The steps of a trace as JSON: milliseconds, questions in and out, items for this one."""
    return [
        {
            "step": item["step"],
            "ms": round(1000 * item["seconds"], 2),
            "rows_in": item["rows_in"],
            "rows_out": item["rows_out"],
            **({"items": item["items"]} if item["items"] >= 0 else {}),
        }
        for item in trace
    ]


def trace_json(row: Mapping[str, Any]) -> Row:
    """Steps, rounds of retrieval with theirs, and why each piece of evidence is there."""
    found: Row = {"steps": steps(row["trace"])}
    if "rounds" in row:
        inner = steps(row["search_trace"])
        size = len(inner) // max(1, len(row["rounds"]))
        found["rounds"] = [
            {**each, "steps": inner[n * size : (n + 1) * size]}
            for n, each in enumerate(row["rounds"])
        ]
    for name in ("anchors", "subquestions", "hyde_passages", "hyde_violations", "rationale"):
        if row.get(name):
            found[name] = row[name]
    found["why"] = why(row)
    return found


def tree(traced: Row) -> str:
    """The trace as lines, the steps of a round below the step that made it."""
    lines = ["How the answer came about"]
    for item in traced["steps"]:
        lines.append(_step(item, "  "))
        if item["step"] == "IterateRetrieval":
            lines += _rounds(traced)
    lines += ["", "Why each piece of evidence is there"]
    for number, item in enumerate(traced["why"], start=1):
        lines += _why(number, item)
    return "\n".join([*lines, ""])


def _rounds(traced: Row) -> Iterator[str]:
    for item in traced.get("rounds", ()):
        question = textwrap.shorten(item["question"], _WIDTH - 36, placeholder=" …")
        yield f"    round {item['round']}: {question} ({item['new_windows']} new windows)"
        yield from (_step(step, "      ") for step in item["steps"])
        if item["round"] == 1:
            yield from _expansion(traced)
        if item["reflection"]:
            note = f"→ {item['reflection']}"
            yield textwrap.fill(note, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8)


def _expansion(traced: Row) -> Iterator[str]:
    """What the question itself was taken apart into."""
    for part, words in traced.get("anchors", {}).items():
        if words:
            yield f"      {part}: {', '.join(words)}"
    for each in traced.get("subquestions", ()):
        yield f"      {each['kind']}: {textwrap.shorten(each['text'], _WIDTH - 20)}"


def _step(item: Row, indent: str) -> str:
    items = f"{item['items']:>7,} items" if "items" in item else ""
    return f"{indent}{item['step']:<{34 - len(indent)}}{item['ms']:>10.1f} ms{items}"


def _why(number: int, item: Row) -> Iterator[str]:
    searches = [
        f"{find['channel']} on {find['track']} #{find['rank']} ({find['score']:.3f})"
        + (f" in round {find['round']}" if find["round"] > 1 else "")
        for find in item["found"]
    ]
    ranks = [
        f"{name.removeprefix('hits_') if name != 'hits' else 'final'} #{at['rank']}"
        f" ({at['score']:.3f})"
        for name, at in item["ranked"].items()
    ]
    text = " · ".join(searches) + (" → " if searches else "") + " → ".join(ranks)
    yield textwrap.fill(text, _WIDTH, initial_indent=f"  [{number}] ", subsequent_indent="      ")
