"""Evidence grades (sr-rag, Methods), and the standing of papers: retracted, corrected, …"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.step import Place
from srrag.storage.mapped_table import Lookup
from srrag.storage.mirror import pull_build

STUDIES = {
    "A": "guideline or consensus",
    "B": "systematic review or meta-analysis",
    "C": "randomised trial",
    "D": "cohort study",
    "E": "other study",
}
"""What studies each grade holds, for readers."""
_MANY = {
    "A": "guidelines or consensus papers",
    "B": "systematic reviews or meta-analyses",
    "D": "cohort studies",
    "E": "other studies",
}
GRADES = tuple(STUDIES)
SCALE = ", ".join(f"{grade} {study}" for grade, study in STUDIES.items())
"""The grades as prompts tell them."""
UNGRADED = "E"
"""The grade that a window without a grade counts as."""


def counted_as(grades: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Replace missing grades by UNGRADED."""
    return pc.if_else(pc.is_in(grades, value_set=pa.array(GRADES)), grades, UNGRADED)


def kinds_of(counts: Mapping[str, int]) -> str:
    """Say how many studies of each grade: "2 randomised trials and 1 cohort study"."""
    graded_first = sorted(counts, key=lambda grade: (not grade, grade))
    return joined(f"{counts[grade]} {_kind(grade, counts[grade])}" for grade in graded_first)


def joined(parts: Iterable[str]) -> str:
    """Parts as in a sentence: "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _kind(grade: str, number: int) -> str:
    if grade not in STUDIES:
        return "of unknown kind"
    return STUDIES[grade] if number == 1 else _MANY.get(grade, f"{STUDIES[grade]}s")


def check_grades(grades: Sequence[str]) -> None:
    """Raise ValueError that names an unknown grade."""
    for grade in grades:
        if grade not in GRADES:
            raise ValueError(f"grade {grade!r}: the grades are {', '.join(GRADES)}")


COPY, DELETED = "copy", "deleted"

STANDINGS: Mapping[str, str] = {
    COPY: "the same paper as another document",
    DELETED: "deleted from the database",
    "retracted": "retracted",
    "concern": "under an expression of concern",
    "superseded": "superseded by a later version",
    "corrected": "corrected after publication",
    "preprint": "a preprint, not peer-reviewed",
    "retraction_notice": "a notice of retraction",
    "concern_notice": "an expression of concern about another paper",
    "correction_notice": "a correction of another paper",
    "ok": "in order",
}
"""Each standing in words, the gravest first; of several, the gravest counts."""

HIDDEN = frozenset([DELETED, "retracted"])
"""Standings that no answer cites, unless the user asks to see them; of a copy none speaks."""

OF_ALL_TEXTS = frozenset(["retracted", "concern"])
"""Standings that hold for each text of a paper; a lesser one may be of one version alone."""

UNKNOWN = ""
"""The standing of all papers of a build without the stage `standing`."""
NOT_LOOKED = "Whether these papers are retracted is not known: this build did not look."

_TYPES = {
    "retracted publication": "retracted",
    "retracted article": "retracted",
    "retracted": "retracted",
    "retraction": "retraction_notice",
    "retraction of publication": "retraction_notice",
    "retraction notice": "retraction_notice",
    "expression of concern": "concern_notice",
    "published erratum": "correction_notice",
    "preprint": "preprint",
}
ARTICLE_TYPES = {
    "retraction": "retraction_notice",
    "partial-retraction": "retraction_notice",
    "expression-of-concern": "concern_notice",
    "correction": "correction_notice",
    "preprint": "preprint",
}
"""The standing that JATS' `article-type` gives a paper."""
_TITLE = re.compile(
    r"^\W*(?:(?:retracted|withdrawn)(?: article| paper)?\s*[:\]]"
    r"|retracted(?: article| paper)?(?:\.|\s*[-\u2013\u2014]\s))"
    r"|[(\[]retracted(?: article\b[^)\]]*)?[)\]]\W*$",
    re.IGNORECASE,
)
_RANKS = {name: rank for rank, name in enumerate(STANDINGS)}
_SHOWN_TITLE_CHARS = 90


def grave_first(standing: str) -> int:
    """Return the rank of a standing, 0 for the gravest; raises KeyError for an unknown one."""
    return _RANKS[standing]


_COMMA = re.compile(r",(?!\s*(?:nih|veterinary)\b)", re.IGNORECASE)
"""What parts types that are told in one string; two of PubMed's names hold a comma themselves."""


def each_type(types: Iterable[str]) -> dict[str, str]:
    """Return each publication type in lower case with the string that told it."""
    return {name.strip().casefold(): each for each in types for name in _COMMA.split(each)}


def of_types(types: Iterable[str]) -> list[str]:
    """Return the standings that publication types give their own paper."""
    return [_TYPES[name] for name in each_type(types) if name in _TYPES]


def of_title(title: str) -> str:
    """Return "retracted" for a title such as "RETRACTED: …", "WITHDRAWN: …" or "… (Retracted)"."""
    return "retracted" if _TITLE.search(title) else ""


def marked(standing: str | None) -> bool:
    """Whether a citation of a paper with this standing needs a mark."""
    return bool(standing) and standing != "ok"


def mark(item: Mapping[str, Any]) -> str:
    """Say the standing of a piece of evidence with its source; "" if there is nothing to say."""
    standing = item.get("standing")
    if not marked(standing):
        return ""
    link = str(item.get("standing_link") or "")
    kind, _, name = link.partition(":")
    link = f"{kind.upper()} {name}" if name and kind in ("pmid", "doi") else name or kind
    return STANDINGS[str(standing)] + (f" ({link})" if link else "")


def standing_note(
    evidence: Sequence[Mapping[str, Any]],
    cited: Iterable[int],
    left_out: Sequence[Mapping[str, Any]],
) -> str:
    """Name the cited evidence (by number from 1) that is not in order, and what was left out.

    Also says so if the build did not check.
    """
    numbers: dict[str, list[int]] = {}
    for number in sorted({*cited}):
        if told := mark(evidence[number - 1]):
            numbers.setdefault(told, []).append(number)
    said = [f"{''.join(f'[{n}]' for n in each)}: {told}." for told, each in numbers.items()]
    for item in left_out:
        title = item["title"] or item["source_id"]
        title = title if len(title) <= _SHOWN_TITLE_CHARS else title[:_SHOWN_TITLE_CHARS] + "…"
        said.append(f"Not used: “{title}”, {mark(item)}.")
    if any(item.get("doc_id") and item.get("standing") == UNKNOWN for item in evidence):
        said.append(NOT_LOOKED)
    return " ".join(said)


class Standings:
    """The opened index; without a folder every standing is unknown."""

    def __init__(self, folder: Path | None) -> None:
        """Read the rows, which are few; None for a build without this stage."""
        self.known = folder is not None
        if folder is not None:
            pull_build(folder)
            self.table = pq.read_table(folder / "standing.parquet")
            self._lookup = Lookup(folder, "standing")

    @classmethod
    def of(cls, at: Place, stage: str = "standing") -> Standings:
        """Open the index of a build, or an empty one."""
        return cls(at.artifact(stage) if stage in at.artifacts else None)

    def find(self, doc_ids: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return standing and link of each document: "ok" where nothing is said of it."""
        if not self.known:
            return [UNKNOWN] * len(doc_ids), [""] * len(doc_ids)
        standings, links = ["ok"] * len(doc_ids), [""] * len(doc_ids)
        rows = self._lookup.find_known(doc_ids)
        for n in np.flatnonzero(rows >= 0).tolist():
            standings[n] = self.table["standing"][int(rows[n])].as_py()
            links[n] = self.table["link"][int(rows[n])].as_py()
        return standings, links
