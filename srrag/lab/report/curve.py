"""Metrics by strata of questions, and the plots: curves over a number that varies, and forests."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.ticker import MaxNLocator

from srrag.algo.significance import ratio_interval
from srrag.core.figures import Figure
from srrag.lab.report.results import STRATA
from srrag.lab.report.row import Row
from srrag.lab.report.view import BenchmarkView, Cell, Column, Notes, cell, mark_of

UNSTATED = "not stated"
MIN_QUESTIONS = 5
"""Fewer have no interval: resampling them shows little of how they vary."""


@dataclass(frozen=True)
class Stratum:
    """Questions that are alike, and what each system makes of them, in the order of the rows."""

    name: str
    questions: int
    figures: tuple[Figure, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The figures as they are printed; why one is empty is said above the table."""
        printed = (cell(each, Notes()) for each in self.figures)
        return tuple(Cell(each.text, each.interval, sort=each.sort) for each in printed)


@dataclass(frozen=True)
class Breakdown:
    """A metric by one property of the questions."""

    kind: str
    strata: tuple[Stratum, ...]


def breakdowns(
    questions: pa.Table, rows: Sequence[str], metric: str, *, resamples: int, seed: int
) -> list[Breakdown]:
    """A metric by each property that at least one question states.

    `questions` are QUESTIONS; those without a value do not count.
    """
    kept = pc.and_(pc.equal(questions["metric"], metric), questions["value"].is_valid())
    table = questions.filter(kept)
    found = []
    for kind in STRATA:
        if table[kind].null_count == table.num_rows:
            continue
        strata = [
            _stratum(table, kind, name, rows, resamples, seed) for name in _names(table[kind])
        ]
        found.append(Breakdown(kind, tuple(strata)))
    return found


def _names(column: pa.ChunkedArray) -> list[str | None]:
    """The values in order, none last."""
    names = pc.unique(column).to_pylist()
    return [*sorted(name for name in names if name is not None), *([None] * (None in names))]


def _stratum(
    table: pa.Table, kind: str, name: str | None, rows: Sequence[str], resamples: int, seed: int
) -> Stratum:
    alike = table.filter(table[kind].is_null() if name is None else pc.equal(table[kind], name))
    values: Mapping[str, pa.Table] = {
        row: alike.filter(pc.equal(alike["row"], row)) for row in rows
    }
    figures = tuple(_figure(values[row], resamples, seed) for row in rows)
    return Stratum(name or UNSTATED, len(pc.unique(alike["query_id"])), figures)


def _figure(table: pa.Table, resamples: int, seed: int) -> Figure:
    size = table.num_rows
    if size == 0:
        return Figure(value=None, reason="no question counts", n=0)
    value, weight = (np.asarray(table[name], np.float64) for name in ("value", "weight"))
    if size < MIN_QUESTIONS:
        return Figure(value=float((value * weight).sum() / weight.sum()), n=size)
    mean, low, high = ratio_interval(value * weight, weight, resamples=resamples, seed=seed)
    return Figure(value=mean, low=low, high=high, n=size)


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


MAX_CURVES = 12
COLOURS = ("#1c2127", "#2f6f9f", "#b5562b", "#4f8a4b", "#7a5195", "#a8862b")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class CurvePoint:
    """The value of a metric at a setting, with its interval if it has one."""

    x: float
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CurveLine:
    """A system over the settings, in their order."""

    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class Curve:
    """A plot: lines over the settings of `key`, the scales, and rows without a setting."""

    metric: Column
    key: str
    lines: tuple[CurveLine, ...]
    references: tuple[tuple[str, float], ...]
    """Names and values of the baselines that do not vary."""
    low: float
    high: float
    ticks: tuple[float, ...]
    group: str = ""
    """The questions that it is of, "" for all."""

    @property
    def title(self) -> str:
        """The metric, its setting, and the group of questions."""
        return f"{self.metric.title} by {self.key}" + (f", {self.group}" if self.group else "")

    @property
    def xs(self) -> tuple[float, ...]:
        """All settings, in order."""
        return tuple(sorted({point.x for line in self.lines for point in line.points}))

    def across(self, x: float) -> float:
        """A setting's position, 0 to 1; by its logarithm where the settings span a factor of 4."""
        first, last = self.xs[0], self.xs[-1]
        if first > 0 and last >= 4 * first:
            return math.log(x / first) / math.log(last / first)
        return (x - first) / (last - first)

    def at(self, value: float) -> float:
        """A value's position, 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    def path(self, line: CurveLine, left: float, width: float, top: float, height: float) -> str:
        """The points of a line for SVG."""
        return _points([(p.x, p.value) for p in line.points], self, (left, width, top, height))

    def band(self, line: CurveLine, left: float, width: float, top: float, height: float) -> str:
        """The outline of the intervals for SVG, "" where a point has none."""
        if any(p.low is None or p.high is None for p in line.points):
            return ""
        upper = [(p.x, p.high or 0.0) for p in line.points]
        lower = [(p.x, p.low or 0.0) for p in reversed(line.points)]
        return _points([*upper, *lower], self, (left, width, top, height))


def curves(bench: BenchmarkView) -> tuple[Curve, ...]:
    """The curves of a benchmark's metrics over each number that its rows vary."""
    found = [
        curve
        for key in _keys(bench.rows)
        for column in (*bench.main, *bench.others)
        if (curve := _curve(bench, key, column)) is not None
    ]
    return tuple(found[:MAX_CURVES])


def group_curves(
    bench: BenchmarkView, column: Column, strata: Sequence[Stratum]
) -> tuple[Curve, ...]:
    """The curves of a metric in each stratum, whose figures stand in the order of the rows."""
    found = []
    for stratum in strata:
        figures = zip(bench.rows, stratum.figures, strict=True)
        rows = [row.model_copy(update={"metrics": {column.name: each}}) for row, each in figures]
        alike = replace(bench, rows=tuple(rows))
        for key in _keys(rows):
            if (curve := _curve(alike, key, column)) is not None:
                found.append(replace(curve, group=stratum.name))
    return tuple(found[:MAX_CURVES])


def _settings(row: Row) -> dict[str, float]:
    """The numbers that a row's overrides set, by key."""
    pairs = (item.partition("=")[::2] for item in row.overrides)
    return {key: float(value) for key, value in pairs if _NUMBER.fullmatch(value)}


def _family(row: Row, key: str) -> tuple[str, ...]:
    return tuple(item for item in row.overrides if not item.startswith(f"{key}="))


def _keys(rows: Sequence[Row]) -> list[str]:
    """Keys whose numbers differ between rows that agree in everything else."""
    found: dict[str, dict[tuple[str, ...], set[float]]] = {}
    for row in rows:
        for key, value in _settings(row).items():
            found.setdefault(key, {}).setdefault(_family(row, key), set()).add(value)
    return [key for key, families in found.items() if any(len(v) > 1 for v in families.values())]


def _curve(bench: BenchmarkView, key: str, column: Column) -> Curve | None:
    """The curve of a metric, None where no row has two values of it."""
    lines: dict[tuple[str, ...], tuple[str, list[CurvePoint]]] = {}
    references = []
    for row in bench.rows:
        figure = row.metrics.get(column.name)
        if figure is None or figure.value is None:
            continue
        setting = _settings(row).get(key)
        if setting is None:
            if row.name in bench.baselines:
                references.append((row.name, figure.value))
            continue
        _, points = lines.setdefault(_family(row, key), (_label(row.name, key), []))
        points.append(CurvePoint(setting, figure.value, figure.low, figure.high))
    drawn = tuple(
        CurveLine(name, tuple(sorted(points, key=lambda point: point.x)))
        for name, points in lines.values()
        if len({point.x for point in points}) > 1
    )
    if not drawn:
        return None
    ends = [n for line in drawn for p in line.points for n in (p.value, p.low, p.high)]
    numbers = [n for n in (*ends, *(value for _, value in references)) if n is not None]
    return Curve(column, key.rpartition(".")[2], drawn, tuple(references), *scale(numbers))


def _label(name: str, key: str) -> str:
    """The name of a row without its setting."""
    short = re.escape(key.rpartition(".")[2].lstrip("+~"))
    return re.sub(rf"(?:^|, ){short}=[^,]*", "", name).lstrip(", ") or "all"


def _points(
    pairs: Sequence[tuple[float, float]], curve: Curve, box: tuple[float, float, float, float]
) -> str:
    left, width, top, height = box
    return " ".join(
        f"{left + width * curve.across(x):.1f},{top + height * (1 - curve.at(y)):.1f}"
        for x, y in pairs
    )
