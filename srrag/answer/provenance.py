"""How an answer came about: its steps, what was made of its question, why its evidence is there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from srrag.answer.record import step_times
from srrag.core.standing import UNGRADED

Row = dict[str, Any]

_EXPANSION = (
    "anchors", "subquestions", "hyde_passages", "rationale", "reformulations",
    "keywords", "tree_trace",
)  # fmt: skip

_OFF = 1e-3
"""If the sum of the terms misses a ranking's score by more than this share, the terms belong to
another calibration."""


def expansion(row: Mapping[str, Any]) -> Row:
    """What was made of the question: the rounds of its search, and what its steps wrote of it."""
    made = {name: row[name] for name in _EXPANSION if row.get(name)}
    if "rounds" not in row:
        return made
    inner = [asdict(each) for each in step_times(row["search_trace"])]
    size = len(inner) // max(1, len(row["rounds"]))
    rounds = [
        {**each, "steps": inner[n * size : (n + 1) * size]} for n, each in enumerate(row["rounds"])
    ]
    return {"rounds": rounds, **made}


def why(row: Mapping[str, Any], terms: Mapping[str, Any] | None = None) -> list[Row]:
    """For each piece of evidence of an answered row, in order, its `found` and its `ranked`.

    `found` holds what a search says of the window: channel, track, round, rank and score, with
    the graph's entity, edge and community that led there. `ranked` maps each column of hits, in
    the order in which they were made, to the window's rank and score there. With the `terms` of
    BETR (the scale `a`, and the bias of each grade in `u`) there is `betr`, the sum r = a·s + u
    (Eq. 9 of sr-rag), where it is what the window was ranked by.
    """
    rankings = {
        name: {hit["unit_id"]: hit for hit in hits}
        for name, hits in row.items()
        if name.startswith("hits") and all(isinstance(hit, Mapping) for hit in hits)
    }
    found: dict[str, list[Row]] = {}
    for find in row.get("found", ()):
        # Ids that are empty say nothing: only the graph has them.
        said = {k: v for k, v in find.items() if k != "unit_id" and v != ""}
        found.setdefault(find["unit_id"], []).append(said)
    reasons = []
    for item in row["evidence"]:
        ranked = {
            name: {key: hits[item["unit_id"]][key] for key in ("rank", "score")}
            for name, hits in rankings.items()
            if item["unit_id"] in hits
        }
        reason = {
            "unit_id": item["unit_id"],
            "found": found.get(item["unit_id"], []),
            "ranked": ranked,
        }
        betr = _betr(ranked, item["grade"], terms) if terms else None
        reasons.append(reason | ({"betr": betr} if betr else {}))
    return reasons


def _betr(ranked: Mapping[str, Row], grade: str, terms: Mapping[str, Any]) -> Row | None:
    """The sum behind a calibrated score; None where these terms do not make it up."""
    if not {"hits", "hits_uncalibrated"} <= ranked.keys():
        return None
    a, u = terms["a"], terms["u"][grade or UNGRADED]
    before, after = ranked["hits_uncalibrated"]["score"], ranked["hits"]["score"]
    if abs(a * before + u - after) > _OFF * max(1.0, abs(after)):
        return None
    return {"a": a, "s": before, "u": u, "r": after}


_WIDTH = 96


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
