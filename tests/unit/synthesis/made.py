"""Findings and papers to synthesise, made small."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from srrag.synthesis.studies import NameMatcher, StudyPaper
from srrag.synthesis.synthesis import Synthesis, synthesise

PARTS = {"P": [], "I": ["drug A"], "C": [], "O": ["death"], "T": []}


def finding(doc: str, direction: str = "better", **told: Any) -> dict[str, Any]:
    """A row of FINDINGS: drug A against placebo on death, unless said otherwise."""
    row = {
        "finding_id": f"{doc}{told}", "doc_id": doc, "unit_id": doc, "grade": "C", "kind": "found",
        "interventions": ["drug A"], "comparators": ["placebo"], "outcome": "death", "times": [],
        "people": [], "direction": direction, "effect": "", "interval": "", "p": "",
        "places": [{"start": 10, "end": 30}], "quote": f"{doc} says {direction}.",
        "confidence": 1.0, "reject": None,
    }  # fmt: skip
    return row | told


def paper(doc: str, **told: Any) -> StudyPaper:
    """A randomised trial of 300 adults."""
    size = {"sample_size": ("300 adults",), "masking": ("double-blind",)}
    given = {"title": f"Trial {doc} of drug A", "year": 2020, "grade": "C", "told": size}
    return StudyPaper(doc, **(given | told))


def synthesis(
    findings: Iterable[dict[str, Any]],
    papers: Iterable[StudyPaper] = (),
    parts: Any = None,
    question: str = "?",
) -> Synthesis:
    """What the findings say; papers that are not given are made."""
    rows = list(findings)
    known = {each.doc_id: each for each in papers}
    known |= {row["doc_id"]: paper(row["doc_id"]) for row in rows if row["doc_id"] not in known}
    names = NameMatcher({"A": "drug A"}, {"drug A": ["astemol"]})
    return synthesise(question, parts or PARTS, rows, known, names, "nobody")
