"""How an answer came about, for a terminal: the steps as a tree, and why each window is there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

_WIDTH = 96
Row = dict[str, Any]


def tree(answer: Row) -> str:
    """The trace of an explained answer as lines, the steps of a round below the step that made it.

    `answer` is the JSON of an Answer.
    """
    traced = answer["expansion"]
    lines = ["How the answer came about"]
    for item in answer["trace"]:
        lines.append(_step(item, "  "))
        if item["step"] == "IterateRetrieval":
            lines += _rounds(traced)
        if item["step"] == "SearchTree":
            lines += _chapters(traced)
    lines += ["", "Why each piece of evidence is there"]
    for number, item in enumerate(answer["why"], start=1):
        lines += _why(number, item)
    return "\n".join([*lines, ""])


def _rounds(traced: Row) -> Iterator[str]:
    for item in traced.get("rounds", ()):
        question = textwrap.shorten(item["question"], _WIDTH - 36, placeholder=" …")
        yield f"    round {item['round']}: {question} ({item['new_windows']} new windows)"
        yield from (_step(step, "      ") for step in item["steps"])
        if item["round"] == 1:
            yield from _expansion(traced)
        if item.get("fault"):
            yield f"      Reflect lost: {item['fault']}"
        if item["reflection"]:
            note = f"→ {item['reflection']}"
            yield textwrap.fill(note, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8)


def _chapters(traced: Row) -> Iterator[str]:
    """The chapters of a textbook that were searched, in order."""
    if words := traced.get("keywords"):
        yield f"      keywords: {', '.join(words)}"
    for each in traced.get("tree_trace", ()):
        counts = f"{each['btu_definite']} definite, {each['btu_candidate']} candidate big units"
        found = f"{each['stu_scored']} small units scored → {each['outcome']}"
        title = textwrap.shorten(each["root"], 40, placeholder=" …")
        yield f"      {title}: {counts}, {found}"


def _expansion(traced: Row) -> Iterator[str]:
    """The parts that the question was split into."""
    for part, words in traced.get("anchors", {}).items():
        if words:
            yield f"      {part}: {', '.join(words)}"
    for each in traced.get("subquestions", ()):
        yield f"      {each['kind']}: {textwrap.shorten(each['text'], _WIDTH - 20)}"


def _step(item: Row, indent: str) -> str:
    items = f"{item['items']:>7,} items" if item["items"] is not None else ""
    lost = f"  lost: {item['fault']}" if item["fault"] else ""
    return f"{indent}{item['step']:<{34 - len(indent)}}{item['ms']:>10.1f} ms{items}{lost}"


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
    if terms := item.get("betr"):
        ranks[-1] += f" = {terms['a']:.3f}·{terms['s']:.3f} {terms['u']:+.3f} for its grade"
    text = " · ".join(searches) + (" → " if searches else "") + " → ".join(ranks)
    yield textwrap.fill(text, _WIDTH, initial_indent=f"  [{number}] ", subsequent_indent="      ")
