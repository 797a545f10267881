"""Forest plots: a metric's value and interval for each system, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
