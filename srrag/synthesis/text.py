"""A synthesis as text, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from srrag.core.standing import STANDINGS, marked
from srrag.synthesis.comparisons import StudyRow
from srrag.synthesis.effects import Effect
from srrag.synthesis.fit import PeopleFit
from srrag.synthesis.studies import StudyPaper
from srrag.synthesis.synthesis import Synthesis, Weighed, shown_pool

WIDTH = 96
SHOWN = 8
"""Comparisons that a terminal shows; JSON holds all."""
FITS = {True: " (as asked)", False: " (ANOTHER)", None: ""}


def readable(made: Synthesis) -> str:
    """The comparisons, best studied first, then what was not counted."""
    lines = [*_wrap(made.question), ""]
    if not made.comparisons:
        lines += ["No study here compares this on an outcome that was asked for.", ""]
    for each in made.comparisons[:SHOWN]:
        lines += [*_comparison(each), ""]
    if len(made.comparisons) > SHOWN:
        lines += [f"{len(made.comparisons) - SHOWN} more comparisons: format=json shows them.", ""]
    lines += _aside(made)
    return "\n".join([*lines, f"Findings read by {made.read_by}. Not medical advice."])


def _comparison(each: Weighed) -> Iterator[str]:
    made = each.comparison
    given = " / ".join(made.interventions[:3]) + " …" * (len(made.interventions) > 3)
    yield from _wrap(f"▌ {given or 'as asked'}  vs  {made.against}:  {made.outcome}")
    yield from _wrap(each.in_short["studies"], "  ")
    for kind, pooled in each.pooled.items():
        told = shown_pool(kind, pooled)
        yield from _wrap(
            f"Pooled {kind}, {pooled.studies} studies: random effects {told['random']:.3g} "
            f"(95 % {_ends(told['random_interval'])}), fixed {told['fixed']:.3g} "
            f"({_ends(told['fixed_interval'])}); I² {100 * pooled.i2:.0f} %, τ² {pooled.tau2:.3g}; "
            + (f"a further study: {_ends(told['prediction_interval'])}"
               if pooled.prediction else "too few for a prediction interval"),
            "  ",
        )  # fmt: skip
    for row in made.rows:
        yield from _row(row, each.fits[row.doc_id])
    for row in made.reviews:
        yield "  A review, not counted among the studies:"
        yield from _row(row, each.fits[row.doc_id])
    if each.differs:
        yield "  They do not say the same; what sets them apart:"
        for name, values in each.differs.items():
            apart = " | ".join(f"[{n}] {v or '–'}" for n, v in enumerate(values, 1))
            yield from _wrap(f"{name}: {apart}", "    ")
    if each.certainty:
        yield "  How sure (GRADE's domains):"
        for domain in each.certainty:
            yield from _wrap(f"{domain.domain}: {domain.judgement}. {domain.reason}.", "    ")


def _row(row: StudyRow, fits: Sequence[PeopleFit]) -> Iterator[str]:
    arms = f"{' + '.join(row.interventions)} vs {' + '.join(row.comparators) or '–'}"
    size = f", n {row.paper.people:,}" if row.paper.people else ""
    yield from _wrap(f"• {_cited(row.paper)}{size}", "  ")
    when = f", {'; '.join(row.times)}" if row.times else ""
    part = f" (only in {'; '.join(row.people)})" if row.subgroup else ""
    sizes = ", ".join(filter(None, [row.effect, row.interval, f"p {row.p}" * bool(row.p)]))
    yield from _wrap(f"{arms}; {row.outcome}{when}{part}: {row.counted.upper()}"
                     f"{f'; {sizes}' if sizes else ''}", "    ")  # fmt: skip
    whom = [
        f"{each.part} {each.told or 'not told'}{FITS[each.meets] if each.told else ''}"
        for each in fits
        if each.asked
    ]
    if whom:
        yield from _wrap(f"of those asked about: {'; '.join(whom)}", "    ")
    if row.turned:
        yield "    (its arms and figures stand the other way round in the paper)"
    read = row.read
    yield from _wrap(f"read as {read}" if isinstance(read, Effect) else
                     f"not pooled: {read.reason}", "    ")  # fmt: skip
    yield from _wrap(f"“{row.quote}”", "    ")
    for other in row.contrary:
        yield from _wrap(f"It also says: “{other}”", "    ")
    if row.concluded:
        yield from _wrap(f"Its conclusion goes further: “{row.concluded}”", "    ")
    if len(row.papers) > 1:
        titles = "; ".join(paper.title for paper in row.papers)
        yield from _wrap(
            f"One study in {len(row.papers)} papers, by {row.one_by}: {titles}", "    "
        )


def _cited(paper: StudyPaper) -> str:
    status = f" [{STANDINGS[paper.status].upper()}]" if marked(paper.status) else ""
    return f"{paper.title} ({paper.year or 'no year'}; grade {paper.grade or '–'}){status}"


def _aside(made: Synthesis) -> Iterator[str]:
    found = made.found
    for each in found.announced:
        there = "a result is here" if each.found else "no result is here"
        yield from _wrap(f"Announced: {each.outcome}, {_cited(each.paper)}: {there}.")
    for part in found.relaxed:
        what = "compares with" if part == "C" else "tells of"
        asked = " / ".join(made.parts[part])
        others = "; these have others" if made.comparisons else ""
        yield from _wrap(f"No study here {what} “{asked}” by that name{others}.")
    counts = (
        (found.background, "told as background"),
        (len(found.concluded), "concluded without a result that was read"),
        (found.one_group, "figures of one group"),
    )
    if told := "; ".join(f"{n} {what}" for n, what in counts if n):
        yield from _wrap(f"Not counted as results: {told}.")
    if found.other_people:
        titles = "; ".join(paper.title for paper in found.other_people[:5])
        yield from _wrap(f"Of other people, {len(found.other_people)} studies: {titles}")
    for paper in found.left_out:
        yield from _wrap(f"Left out: {_cited(paper)}")


def _ends(ends: list[float] | None) -> str:
    return "–" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def _wrap(text: str, before: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=before, subsequent_indent=before + "  ", break_on_hyphens=False
    )
