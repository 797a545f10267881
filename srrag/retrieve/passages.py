"""The windows that a search found, with what a citation of them needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srrag.core.standing import Standings, mark
from srrag.core.units import Units


@dataclass(frozen=True, kw_only=True)
class FoundPassage:
    """A window that a search found; `rank` counts from 1.

    `status` says in words what a reader must know of its publication, as "retracted (PMID 1)", and
    is "" for nothing; `standing` and `standing_link` say it as `srrag.core.standing` names it.
    """

    rank: int
    score: float
    unit_id: str
    doc_id: str
    grade: str
    title: str
    source_id: str
    pmid: str
    year: int
    section: str
    text: str
    standing: str
    standing_link: str
    status: str


_COLUMNS = (
    "unit_id", "doc_id", "grade", "title", "source_id", "pmid", "year", "section", "text",
)  # fmt: skip


def found_passages(
    unit_ids: Sequence[str], scores: Sequence[float], units: Units, standings: Standings
) -> tuple[FoundPassage, ...]:
    """Read the windows with these ids, best first."""
    rows = units.take_evidence(unit_ids).select(_COLUMNS).to_pylist()
    said = zip(*standings.find([row["doc_id"] for row in rows]), strict=True)
    return tuple(
        FoundPassage(
            rank=rank, score=score, **row, standing=standing, standing_link=link,
            status=mark({"standing": standing, "standing_link": link}),
        )
        for rank, (score, row, (standing, link)) in enumerate(
            zip(scores, rows, said, strict=True), start=1
        )
    )  # fmt: skip
