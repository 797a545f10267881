"""How an answer came about: its steps, what was made of its question, why its evidence is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from srrag.core.grades import UNGRADED

Row = dict[str, Any]

_EXPANSION = (
    "anchors", "subquestions", "hyde_passages", "hyde_violations", "rationale", "reformulations",
    "keywords", "tree_trace",
)  # fmt: skip

_OFF = 1e-3
"""If the sum of the terms misses a ranking's score by more than this share, the terms belong to
another calibration."""


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """A step of the pipeline; its time is that of the whole batch."""

    step: str
    ms: float
    rows_in: int
    rows_out: int
    items: int | None = None
    """how many items it wrote for this question, where it wrote a list"""
    fault: str | None = None


def step_times(trace: Sequence[Mapping[str, Any]]) -> tuple[StepTime, ...]:
    """The steps of a trace."""
    return tuple(
        StepTime(
            step=item["step"],
            ms=round(1000 * item["seconds"], 2),
            rows_in=item["rows_in"],
            rows_out=item["rows_out"],
            items=item["items"] if item["items"] >= 0 else None,
            fault=item.get("fault") or None,
        )
        for item in trace
    )


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
