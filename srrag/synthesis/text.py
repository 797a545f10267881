"""A synthesis as text, for a terminal, and the forest plots of its pooled effects."""

from __future__ import annotations

import math
import re
import textwrap
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from srrag.core.standing import NOT_LOOKED, STANDINGS, marked
from srrag.storage.atomic_write import commit
from srrag.synthesis.certainty import PeopleFit
from srrag.synthesis.comparisons import StudyRow
from srrag.synthesis.effects import RATIOS, Effect, PooledEffect
from srrag.synthesis.studies import StudyPaper
from srrag.synthesis.synthesis import Synthesis, Weighed, shown_pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 96
SHOWN = 8
"""Comparisons that a terminal shows; JSON holds all."""
FITS = {True: " (as asked)", False: " (ANOTHER)", None: ""}


def readable(made: Synthesis) -> str:
    """The comparisons, best studied first, then what was not counted."""
    lines = [*_wrap(made.question), ""]
    if not made.comparisons:
        lines += ["No result that was read compares this on an outcome that was asked for.", ""]
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
        f"{each.told}{FITS[each.meets]}"
        if each.told and each.part == "condition"  # names the people themselves
        else f"{each.part} {each.told or 'not told'}{FITS[each.meets] if each.told else ''}"
        for each in fits
        if each.asked
    ]
    if whom:
        yield from _wrap(f"people: {'; '.join(whom)}", "    ")
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
        titles = "; ".join(_cited(paper) for paper in row.papers)
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
        yield from _wrap(f"No result that was read {what} “{asked}” by that name{others}.")
    counts = (
        (found.background, "told as background"),
        (len(found.concluded), "concluded without a result that was read"),
        (found.one_group, "figures of one group"),
    )
    if told := "; ".join(f"{n} {what}" for n, what in counts if n):
        yield from _wrap(f"Not counted as results: {told}.")
    if found.other_people:
        titles = "; ".join(_cited(paper) for paper in found.other_people[:5])
        yield from _wrap(f"Of other people, {len(found.other_people)} studies: {titles}")
    for paper in found.left_out:
        yield from _wrap(f"Left out: {_cited(paper)}")
    if not made.standing_known:
        yield from _wrap(NOT_LOOKED)


def _ends(ends: list[float] | None) -> str:
    return "–" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def _wrap(text: str, before: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=before, subsequent_indent=before + "  ", break_on_hyphens=False
    )


MOST_TICKS = 7
INK, GREY = "#1c2127", "#8a9099"


def draw(made: Synthesis, folder: Path) -> list[str]:
    """Write `forest-N.pdf` and `.png` for each pooled effect; returns their paths."""
    paths = []
    for number, figure in enumerate(_figures(made), 1):
        for form in ("pdf", "png"):
            path = folder / f"forest-{number}.{form}"
            path.parent.mkdir(parents=True, exist_ok=True)
            commit(path, partial(_save, figure, form))
            paths.append(str(path))
    return paths


def as_images(made: Synthesis) -> list[str]:
    """The forest plot of each pooled effect, as the address of an SVG image that holds it."""
    images = []
    for figure in _figures(made):
        _save(figure, "svg", drawn := BytesIO())
        images.append(f"data:image/svg+xml;base64,{b64encode(drawn.getvalue()).decode()}")
    return images


def _figures(made: Synthesis) -> Iterator[Figure]:
    for each in made.comparisons:
        against = each.comparison.against
        title = f"{each.comparison.interventions[0]} vs {against}: {each.comparison.outcome}"
        for kind, pooled in each.pooled.items():
            yield forest(title, kind, each.pooled_rows[kind], pooled)


def _save(figure: Figure, form: str, into: Path | BytesIO) -> None:
    """Write a figure whose bytes depend on what it shows alone."""
    from matplotlib import rc_context

    dated = {"pdf": {"CreationDate": None}, "png": {"Software": None}, "svg": {"Date": None}}
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "forest"}):
        figure.savefig(into, format=form, metadata=dated[form], transparent=form == "svg")


def forest(title: str, kind: str, rows: Sequence[StudyRow], pooled: PooledEffect) -> Figure:
    """A row a study, its square as large as its weight, diamonds for both models.

    Ratios stand on a logarithmic scale. The line through the last diamond is the prediction
    interval.
    """
    from matplotlib.figure import Figure  # of the extra that pools

    ratio = kind in RATIOS
    reads = [row.read for row in rows if isinstance(row.read, Effect)]
    weights = [1 / (read.variance + pooled.tau2) for read in reads]
    lines = textwrap.wrap(title, 52)
    figure = Figure(
        figsize=(4.7, 0.9 + 0.2 * len(lines) + 0.5 * (len(reads) + 2)), dpi=200,
        layout="constrained",
    )  # fmt: skip
    axes = figure.add_subplot()

    def label(place: int, name: str, told: str) -> None:
        across = axes.get_yaxis_transform()
        axes.text(0, place - 0.24, name, transform=across, fontsize=9, va="bottom")
        axes.text(1, place - 0.24, told, transform=across, fontsize=9, va="bottom", ha="right")

    for place, (row, read) in enumerate(zip(rows, reads, strict=True)):
        low, high = (math.log(e) if ratio else e for e in (read.low, read.high))
        share = weights[place] / sum(weights)
        axes.hlines(place, low, high, color=INK, linewidth=1.2)
        axes.plot(read.estimate, place, "s", color=INK, markersize=3 + 8 * math.sqrt(share))
        told = f"{_plain(read.value)} ({_plain(read.low)} to {_plain(read.high)}), {share:.0%}"
        label(place, _escaped(_short(row.paper)), told)
    models = (
        ("Fixed effect", pooled.fixed, pooled.fixed_interval),
        ("Random effects", pooled.random, pooled.random_interval),
    )
    for place, (name, middle, (low, high)) in enumerate(models, len(reads)):
        axes.fill(
            [low, middle, high, middle], [place, place - 0.16, place, place + 0.16], color=INK
        )
        shown = [_plain(math.exp(e) if ratio else e) for e in (middle, low, high)]
        label(place, name, f"{shown[0]} ({shown[1]} to {shown[2]})")
    last = len(reads) + 1
    if pooled.prediction:
        axes.hlines(
            last, pooled.prediction[0], pooled.prediction[1], color=GREY, linewidth=2.2, zorder=0
        )
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    axes.set_yticks([])
    axes.set_ylim(last + 0.4, -0.75)
    _set_scale(axes, reads, ratio)
    note = f"I² {pooled.i2:.0%}, τ² {pooled.tau2:.3g}, Q {pooled.q:.2f} (p {pooled.p:.3g})"
    band = ""
    if pooled.prediction:
        ahead = [_plain(math.exp(e) if ratio else e) for e in pooled.prediction]
        band = f"; grey: a further study, {ahead[0]} to {ahead[1]}"
    axes.set_xlabel(f"{_escaped(kind)}, 95 %{band}\n{note}", fontsize=9)
    axes.set_title(_escaped("\n".join(lines)), loc="left", fontsize=10)
    axes.tick_params(length=0)
    axes.tick_params("x", labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return figure


def _short(paper: StudyPaper) -> str:
    """Title and year of a paper in the room that a plot has, with its mark."""
    mark = f" [{paper.status.replace('_', ' ')}]" if marked(paper.status) else ""
    title = textwrap.shorten(paper.title, 32 - len(mark), placeholder=" …")
    return f"{title} {paper.year or ''}{mark}"


def _set_scale(axes: Axes, reads: Sequence[Effect], ratio: bool) -> None:
    """From end to end of the intervals, over no effect; what is foretold may run off."""
    from matplotlib.ticker import MaxNLocator

    ends = [end for read in reads for end in (read.low, read.high)] + [1.0 if ratio else 0.0]
    low, high = (math.log(e) if ratio else e for e in (min(ends), max(ends)))
    spare = 0.1 * (high - low)
    axes.set_xlim(low - spare, high + spare)
    if not ratio:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS))
        return
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):  # as many as can be read
        told = [step * 10.0**power for power in range(-9, 10) for step in steps]
        marks = [each for each in told if low - spare <= math.log(each) <= high + spare]
        if len(marks) <= MOST_TICKS:
            break
    axes.set_xticks([math.log(each) for each in marks], [_plain(each) for each in marks])


def _plain(value: float) -> str:
    return re.sub(r"^-", "−", f"{value:.3g}")


def _escaped(text: str) -> str:
    """Dollar signs open math text."""
    return text.replace("$", r"\$")
