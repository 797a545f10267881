"""Metrics by condition, grade and certainty of the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.significance import ratio_interval
from srrag.core.figures import Figure
from srrag.lab.report.results import STRATA
from srrag.lab.report.view import Cell, Notes, cell

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
