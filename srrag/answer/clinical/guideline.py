"""Whether a document is a guideline, or only calls itself one."""

from __future__ import annotations

import re

from srrag.answer.clinical.paper import CitedPaper

_NAMES_ITSELF = re.compile(
    r"\b(?:(?:clinical|practice|treatment|management|evidence-based) guidelines?"
    r"|guidelines? (?:for|on|of|from)|(?:consensus|position) (?:statement|paper|stand|document)s?"
    r"|expert consensus|delphi consensus|: (?:a )?guideline)\b",
    re.IGNORECASE,
)
_ABOUT_ONE = re.compile(
    r"\b(?:adheren\w+|complian\w+|implement\w+|impact|awareness|according to|based on|concordan\w+"
    r"|apprais\w+|quality of|trial|survey|cohort|protocol)\b",
    re.IGNORECASE,
)
VOUCHED = ("publication_type", "mesh", "metadata")
"""Sources of a grade that stand outside the document's own wording: its index, or who added it."""


def claimed_guideline(paper: CitedPaper) -> str:
    """Say that a document only calls itself a guideline; "" for one that is, or makes no claim.

    Grade A that was read from title and wording is a claim, and so is a title that says guideline
    on a document of another grade.
    """
    item = paper.item
    source = str(item.get("grade_source") or "").split(":")[0]
    if item["grade"] == "A":
        vouched = source in VOUCHED
        return "" if vouched else "calls itself a guideline: only its own wording says so"
    names = _NAMES_ITSELF.search(paper.title) and not _ABOUT_ONE.search(paper.title)
    kind = f"graded {item['grade']}" if item["grade"] else "without a grade"
    return f"calls itself a guideline, but is {kind}" if names else ""
