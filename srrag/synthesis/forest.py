"""Forest plots of pooled effects, to be printed."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from srrag.storage.atomic_write import commit
from srrag.synthesis.comparisons import StudyRow
from srrag.synthesis.effects import RATIOS, Effect
from srrag.synthesis.pooling import PooledEffect
from srrag.synthesis.synthesis import Synthesis

INK, GREY = "#1c2127", "#8a9099"


def draw(made: Synthesis, folder: Path) -> list[str]:
    """Write `forest-N.pdf` and `.png` for each pooled effect; returns their paths."""
    paths = []
    pools = [(each, kind) for each in made.comparisons for kind in each.pooled]
    for number, (each, kind) in enumerate(pools, 1):
        against = each.comparison.against
        title = f"{each.comparison.interventions[0]} vs {against}: {each.comparison.outcome}"
        figure = forest(title, kind, each.pooled_rows[kind], each.pooled[kind])
        for form in ("pdf", "png"):
            path = folder / f"forest-{number}.{form}"
            path.parent.mkdir(parents=True, exist_ok=True)
            commit(path, partial(_save, figure, form))
            paths.append(str(path))
    return paths


def _save(figure: Figure, form: str, path: Path) -> None:
    """Write a figure whose bytes depend on what it shows alone."""
    dated = {"CreationDate": None} if form == "pdf" else {"Software": None}
    figure.savefig(path, format=form, metadata=dated)


def forest(title: str, kind: str, rows: Sequence[StudyRow], pooled: PooledEffect) -> Figure:
    """A row a study, its square as large as its weight, diamonds for both models.

    Ratios stand on a logarithmic scale. The line through the last diamond is the prediction
    interval.
    """
    ratio = kind in RATIOS
    reads = [row.read for row in rows if isinstance(row.read, Effect)]
    height = 1.9 + 0.42 * (len(reads) + 2)
    figure = Figure(figsize=(8.3, height), dpi=200, layout="constrained")
    axes = figure.add_subplot()
    weights = [1 / (read.variance + pooled.tau2) for read in reads]
    labels = []
    for place, (row, read) in enumerate(zip(rows, reads, strict=True)):
        low, high = (math.log(e) if ratio else e for e in (read.low, read.high))
        share = weights[place] / sum(weights)
        axes.hlines(place, low, high, color=INK, linewidth=1.2)
        axes.plot(read.estimate, place, "s", color=INK, markersize=3 + 9 * math.sqrt(share))
        told = f"{_plain(read.value)} ({_plain(read.low)} to {_plain(read.high)}), {share:.0%}"
        name = textwrap.shorten(row.paper.title, 52, placeholder=" …")
        labels.append(f"{_escaped(name)} {row.paper.year or ''}\n{told}")
    models = (
        ("Fixed effect", pooled.fixed, pooled.fixed_interval),
        ("Random effects", pooled.random, pooled.random_interval),
    )
    for place, (name, middle, (low, high)) in enumerate(models, len(reads)):
        axes.fill(
            [low, middle, high, middle], [place, place - 0.22, place, place + 0.22], color=INK
        )
        shown = [_plain(math.exp(e) if ratio else e) for e in (middle, low, high)]
        labels.append(f"{name}\n{shown[0]} ({shown[1]} to {shown[2]})")
    last = len(labels) - 1
    if pooled.prediction:
        axes.hlines(
            last, pooled.prediction[0], pooled.prediction[1], color=GREY, linewidth=2.2, zorder=0
        )
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylim(last + 0.6, -0.6)
    if ratio:  # round ratios, wherever they lie on the scale
        ends = axes.get_xlim()
        round_ = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(*map(math.exp, ends))
        marks = [each for each in round_ if each > 0 and ends[0] <= math.log(each) <= ends[1]]
        axes.set_xticks([math.log(each) for each in marks], [_plain(each) for each in marks])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6))
    note = f"I² {pooled.i2:.0%}, τ² {pooled.tau2:.3g}, Q {pooled.q:.2f} (p {pooled.p:.3g})"
    band = "; grey: where a further study would lie" if pooled.prediction else ""
    axes.set_xlabel(f"{_escaped(kind)}, 95 %{band}\n{note}", fontsize=8)
    axes.set_title(_escaped(textwrap.fill(title, 88)), loc="left", fontsize=9)
    axes.tick_params(length=0)
    axes.tick_params("x", labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return figure


def _plain(value: float) -> str:
    return re.sub(r"^-", "−", f"{value:.3g}")


def _escaped(text: str) -> str:
    """Dollar signs open math text."""
    return text.replace("$", r"\$")
