"""What an answer does not tell, each point computed from its evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srrag.answer.clinical.asked import AskedQuestion
from srrag.answer.clinical.findings import QuotedFinding
from srrag.answer.clinical.match import PartMatch
from srrag.answer.clinical.paper import CitedPaper, claimed_guideline
from srrag.answer.clinical.stance import PapersAgree
from srrag.core.standing import mark
from srrag.reading.lexicon import lexicon
from srrag.reading.statement import polarity

Row = Mapping[str, Any]


@dataclass(frozen=True)
class UntoldPoint:
    """A point that the answer leaves open; `kind` names the rule that found it."""

    kind: str
    text: str


def untold_points(
    asked: AskedQuestion,
    papers: Sequence[CitedPaper],
    findings: Sequence[QuotedFinding],
    matches: Sequence[PartMatch],
    agreed: PapersAgree,
    *,
    quoted: bool = True,
) -> list[UntoldPoint]:
    """The points of an answer, what weighs most first.

    A question without an outcome misses no size of an effect, one of harm no harms. Of an answer
    that a model wrote, no rule says which effects and harms it lacks.
    """
    cited = [paper for paper in papers if paper.cited]
    return [
        *_conflict(agreed, cited),
        *_standings(cited),
        *_people(matches),
        *_missing(matches),
        *_spread(matches, cited),
        *_guideline(papers, cited),
        *(_effect(findings) if quoted and asked.O else ()),
        *(_harm(cited) if quoted and polarity(asked.outcome) != "bad" else ()),
        *_age(papers, cited),
    ]


def _conflict(agreed: PapersAgree, cited: Sequence[CitedPaper]) -> list[UntoldPoint]:
    """That papers contradict each other, or that there is only one."""
    if agreed.disagree:
        sides = "; ".join(
            f"{_marks(numbers)} {'says' if len(numbers) == 1 else 'say'} {name}"
            for name, numbers in agreed.sides
        )
        where = " One side is not cited in the answer." if agreed.by_uncited else ""
        text = f"The papers do not agree: {sides}.{where} They may compare different things."
        return [UntoldPoint("conflict", text)]
    if len(cited) == 1:
        return [UntoldPoint("single", "Only one paper is cited: the answer stands on it alone.")]
    return []


def _standings(cited: Sequence[CitedPaper]) -> list[UntoldPoint]:
    """Cited papers that are not in order, and that nobody looked."""
    told = [
        UntoldPoint("standing", f"[{paper.number}] is {said}.")
        for paper in cited
        if (said := mark(paper.item))
    ]
    if cited and not any(paper.item.get("standing") for paper in cited):
        text = "Whether these papers were retracted is not known: this library did not look."
        told.append(UntoldPoint("standing_unknown", text))
    return told


def _people(matches: Sequence[PartMatch]) -> list[UntoldPoint]:
    return [
        UntoldPoint("other", f"It is about another {each.name}: “{each.other}”, "
                    f"where you asked about “{each.asked}”.")
        for each in matches
        if each.state == "other"
    ]  # fmt: skip


def _missing(matches: Sequence[PartMatch]) -> list[UntoldPoint]:
    """Parts that no cited paper holds whole."""
    points = []
    for each in matches:
        words = " and ".join(f"“{word}”" for word in each.lacking[:3])
        if each.state == "no" and each.asked:
            text = f"No cited paper speaks of the {each.name} that you asked about"
            points.append(UntoldPoint("missing", f"{text} ({words})." if words else f"{text}."))
        elif each.state == "partly" and words:
            points.append(UntoldPoint("partly", f"Of the {each.name}, no cited paper has {words}."))
    return points


def _spread(matches: Sequence[PartMatch], cited: Sequence[CitedPaper]) -> list[UntoldPoint]:
    """That each part is held by some paper, but all of them by none."""
    asked = [each for each in matches if each.state != "not_asked"]
    whole = [each for each in asked if each.state == "yes"]
    if len(whole) < 2 or len(whole) < len(asked):
        return []
    if any(all(paper.number in each.numbers for each in whole) for paper in cited):
        return []
    return [UntoldPoint("spread", "No cited paper is about all parts of your question at once.")]


def _guideline(papers: Sequence[CitedPaper], cited: Sequence[CitedPaper]) -> list[UntoldPoint]:
    """That no guideline or review stands behind it, and which document only claims to be one."""
    claims = [
        UntoldPoint("claims_guideline", f"[{paper.number}] {said}.")
        for paper in papers
        if (said := claimed_guideline(paper)) and (paper.cited or paper.item["grade"] == "A")
    ]
    grades = {paper.item["grade"] for paper in papers if not claimed_guideline(paper)}
    quoted = {paper.item["grade"] for paper in cited if not claimed_guideline(paper)}
    if "A" in quoted:
        return claims
    if "A" in grades:
        return [*claims, UntoldPoint("guideline_uncited", "A guideline was found, but not cited.")]
    what = "No guideline" if "B" in grades else "No guideline and no systematic review"
    return [*claims, UntoldPoint("no_guideline", f"{what} on this was found in this library.")]


def _effect(findings: Sequence[QuotedFinding]) -> list[UntoldPoint]:
    """That no size of the effect, or no interval, is told of the asked outcome."""
    cited = [each for each in findings if each.cited]
    if not cited:
        return []
    if not any(each.on_outcome for each in cited):
        return [UntoldPoint("outcome", "No quote names the outcome that you asked about.")]
    effects = [effect for each in cited if each.on_outcome for effect in each.effects]
    if not any(re.sub(r"[Pp]\s?[<=>≤≥]\s?[\d.·]+", "", each.text).strip() for each in effects):
        return [UntoldPoint("no_effect", "No size of the effect could be read in the quotes.")]
    if not any(each.low for each in effects):
        return [UntoldPoint("no_interval", "No confidence interval is quoted.")]
    return []


def _harm(cited: Sequence[CitedPaper]) -> list[UntoldPoint]:
    if cited and not any(lexicon("harm_told").search(paper.text) for paper in cited):
        return [UntoldPoint("harm", "The passages cited say nothing of harms.")]
    return []


def _age(papers: Sequence[CitedPaper], cited: Sequence[CitedPaper]) -> list[UntoldPoint]:
    """The newest year cited, and a newer one that was found."""
    newest = max((paper.item["year"] for paper in cited), default=0)
    found = max((paper.item["year"] for paper in papers), default=0)
    if not newest:
        return (
            [UntoldPoint("year", "When the cited papers appeared is not known.")] if cited else []
        )
    text = f"Nothing cited is newer than {newest}."
    if found > newest:
        text = f"Nothing cited is newer than {newest}; the newest paper found is of {found}."
    return [UntoldPoint("year", text)]


def _marks(numbers: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)
