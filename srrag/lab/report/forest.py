"""Forest plots: a metric's value and interval for each system, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from srrag.lab.report.row import Row
from srrag.lab.report.view import BenchmarkView, Column, mark_of

INK, GREY = "#1c2127", "#8a9099"
_PADDING = 0.06
_MAX_LABEL = 22


@dataclass(frozen=True)
class ForestMark:
    """A system on the plot: its place among the systems, value and interval; None for no value."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    significant: str
    is_baseline: bool


@dataclass(frozen=True)
class Forest:
    """A plot: marks from top to bottom, the scale and its ticks, and the value of the baseline."""

    metric: Column
    marks: tuple[ForestMark, ...]
    low: float
    high: float
    ticks: tuple[float, ...]
    baseline: float | None

    def at(self, value: float) -> float:
        """Return a value's position on the scale, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def forest(bench: BenchmarkView, column: Column) -> Forest:
    """Make the plot of a metric."""
    marks = tuple(_mark(bench, row, column) for row in bench.rows)
    numbers = [n for mark in marks for n in (mark.value, mark.low, mark.high) if n is not None]
    first, last, ticks = scale(numbers)
    based = [mark.value for mark in marks if mark.is_baseline]
    baseline = based[0] if len(based) == 1 else None
    return Forest(column, marks, first, last, ticks, baseline)


def scale(numbers: Sequence[float]) -> tuple[float, float, tuple[float, ...]]:
    """The ends of a scale that shows these values, and its ticks."""
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    padding = max(_PADDING * (high - low), 0.005)
    # A share has no scale beyond 0 and 1.
    first = max(low - padding, 0.0) if low >= 0 else low - padding
    last = min(high + padding, 1.0) if high <= 1 else high + padding
    ticks = (float(t) for t in MaxNLocator(5).tick_values(first, last))
    return first, last, tuple(t for t in ticks if first <= t <= last)


def _mark(bench: BenchmarkView, row: Row, column: Column) -> ForestMark:
    figure = row.metrics.get(column.name)
    label = row.name
    if len(label) > _MAX_LABEL:  # what sets systems apart often stands last
        label = f"{label[: _MAX_LABEL // 2]}…{label[1 - _MAX_LABEL // 2 :]}"
    baseline = row.name in bench.baselines
    if figure is None or figure.value is None:
        return ForestMark(label, None, None, None, "", baseline)
    significant = mark_of(row.difference.get(column.name), column.lower)
    return ForestMark(label, figure.value, figure.low, figure.high, significant, baseline)


def draw(plot: Forest, path: Path) -> None:
    """Write a plot as PNG whose bytes depend on the figures alone."""
    figure = Canvas(figsize=(5.6, 0.9 + 0.3 * len(plot.marks)), dpi=160, layout="constrained")
    axes = figure.add_subplot()
    for place, mark in enumerate(plot.marks):
        if mark.value is None:
            axes.text(plot.low, place, " –", va="center", color=GREY)
            continue
        if mark.low is not None and mark.high is not None:
            axes.hlines(place, mark.low, mark.high, color=INK, linewidth=1.4)
        fill = INK if mark.significant or mark.is_baseline else "white"
        shape = "s" if mark.is_baseline else "o"
        axes.plot(
            mark.value, place, shape, color=INK, markerfacecolor=fill, markersize=5.5, clip_on=False
        )
    if plot.baseline is not None:
        axes.axvline(plot.baseline, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    axes.set_yticks(range(len(plot.marks)), [_label(mark) for mark in plot.marks])
    axes.set_ylim(len(plot.marks) - 0.5, -0.5)
    axes.set_xlim(plot.low, plot.high)
    axes.set_xticks(plot.ticks)
    axes.set_title(plot.metric.title, loc="left", fontsize=10)
    axes.tick_params(length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, format="png", metadata={"Software": None})


def _label(mark: ForestMark) -> str:
    """Return the axis label of a system, with dollar signs escaped from math text."""
    return f"{mark.label} {mark.significant}".rstrip().replace("$", r"\$")
