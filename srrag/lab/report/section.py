"""The section of a report on one benchmark, computed once for the page and wandb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from srrag.lab.report import numbers
from srrag.lab.report.breakdown import MIN_QUESTIONS, Breakdown, breakdowns
from srrag.lab.report.curve import Curve, Forest, curves, forest, group_curves
from srrag.lab.report.drilldown import Drilldown, drilldown
from srrag.lab.report.results import STRATA, Results, stated
from srrag.lab.report.row import Failure, Row, spreads
from srrag.lab.report.view import (
    BenchmarkView,
    Cell,
    Column,
    Notes,
    Table,
    cell,
    explained,
    mark_of,
    table,
)

MAX_FAILURES = 20
"""Failures shown of one benchmark; how many more there are is said."""


@dataclass(frozen=True)
class Compared:
    """A difference to the baseline as it is printed; its p-values alone, by Holm and McNemar."""

    row: str
    metric: str
    cell: Cell
    ps: tuple[Cell, ...]


@dataclass(frozen=True)
class SeedLine:
    """A system over its seeds as it is printed: mean ± SD of each main metric."""

    name: str
    seeds: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class BenchmarkSection:
    """All that is shown of a benchmark; `lost` says first what failed."""

    bench: BenchmarkView
    size: str
    lost: tuple[str, ...]
    table: Table
    explained: str
    seeds: tuple[SeedLine, ...]
    failures: tuple[tuple[str, Failure], ...]
    more_failures: int
    forests: tuple[Forest, ...]
    curves: tuple[Curve, ...]
    differences: tuple[Compared, ...]
    difference_notes: tuple[str, ...]
    others: Table | None
    kinds: str
    breakdown_note: str
    breakdowns: tuple[tuple[Column, tuple[Breakdown, ...]], ...]
    drilldowns: tuple[Drilldown, ...]


def section(
    results: Results, bench: BenchmarkView, *, worst: int | None, resamples: int, seed: int
) -> BenchmarkSection:
    """Compute a section with details of each system's `worst` questions, None for all."""
    failures = [(row.name, each) for row in bench.rows for each in row.failures]
    compared, notes = _compared(bench)
    parts = {
        column: breakdowns(
            results.questions, _names(bench), column.name, resamples=resamples, seed=seed
        )
        for column in bench.main
    }
    kinds = [
        kind for kind in STRATA if any(each.kind == kind for p in parts.values() for each in p)
    ]
    return BenchmarkSection(
        bench=bench,
        size=_size(results, bench),
        lost=tuple(stated(bench.rows)),
        table=table(bench, bench.main),
        explained=explained(bench),
        seeds=tuple(_over_seeds(bench)),
        failures=tuple(failures[:MAX_FAILURES]),
        more_failures=len(failures[MAX_FAILURES:]),
        forests=tuple(forest(bench, column) for column in bench.main),
        curves=(*curves(bench), *_set_curves(bench, parts)),
        differences=compared,
        difference_notes=notes,
        others=table(bench, bench.others) if bench.others else None,
        kinds=_and(kinds),
        breakdown_note=_note(kinds),
        breakdowns=tuple((c, tuple(p)) for c, p in parts.items() if p),
        drilldowns=tuple(
            drilldown(results, bench, row, worst) for row in bench.rows if row.state == "done"
        ),
    )


def _set_curves(
    bench: BenchmarkView, parts: Mapping[Column, Sequence[Breakdown]]
) -> Iterator[Curve]:
    """The curves of the first table's metrics in each set of a benchmark of several."""
    for column, found in parts.items():
        for each in found:
            if each.kind == "subset" and len(each.strata) > 1:
                yield from group_curves(bench, column, each.strata)


def common_versions(rows: Sequence[Row]) -> str:
    """The versions that all rows were made with, "" if they differ."""
    first = rows[0].versions
    if not first or any(row.versions != first for row in rows):
        return ""
    return ", ".join(f"{name} {version}" for name, version in first.items())


def _names(bench: BenchmarkView) -> list[str]:
    return [row.name for row in bench.rows]


def _size(results: Results, bench: BenchmarkView) -> str:
    asked = max(row.questions for row in bench.rows)
    lost = sum(row.state == "failed" for row in bench.rows)
    systems = len(bench.rows)
    text = f"{asked:,} question{'s' * (asked != 1)}, {systems} system{'s' * (systems != 1)}"
    described = results.gold.filter(pc.equal(results.gold["bench"], bench.name)).num_rows
    unknown = "" if described else " The questions themselves were not kept."
    return f"{text}{f', of which {lost} failed as a whole' if lost else ''}.{unknown}"


def _over_seeds(bench: BenchmarkView) -> Iterator[SeedLine]:
    for each in spreads(bench.rows):
        found = (each.metrics.get(column.name) for column in bench.main)
        cells = (numbers.NONE if pair is None else numbers.spread(*pair) for pair in found)
        yield SeedLine(each.name, ", ".join(each.seeds), tuple(cells))


def _compared(bench: BenchmarkView) -> tuple[tuple[Compared, ...], tuple[str, ...]]:
    notes = Notes()
    found = []
    for row in bench.rows:
        for column in bench.columns:
            difference = row.difference.get(column.name)
            if difference is None:
                continue
            ps = (difference.p, difference.p_holm, difference.p_mcnemar)
            printed = cell(difference, notes, mark_of(difference, column.lower))
            tested = tuple(Cell(numbers.p_value(p), sort=p) for p in ps)
            found.append(Compared(row.name, column.title, printed, tested))
    return tuple(found), tuple(notes.texts)


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _note(kinds: Sequence[str]) -> str:
    unstated = [kind for kind in STRATA if kind not in (*kinds, "subset")]
    text = (
        f"n counts questions with a value. Strata of fewer than {MIN_QUESTIONS} have no interval; "
        f"“{numbers.NONE}”: no question of the stratum counts."
    )
    return text + (f" The questions state no {' and no '.join(unstated)}." if unstated else "")
