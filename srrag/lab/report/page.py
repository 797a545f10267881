"""The report as one HTML page that works offline and escapes all text of documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from jinja2 import Environment
from markupsafe import Markup

from srrag.core.html import policy, templates
from srrag.core.standing import STUDIES
from srrag.lab.report import numbers
from srrag.lab.report.curve import (
    COLOURS,
    DASHES,
    MIN_QUESTIONS,
    Breakdown,
    Curve,
    Forest,
    breakdowns,
    curves,
    forest,
    group_curves,
)
from srrag.lab.report.drilldown import Drilldown, drilldown
from srrag.lab.report.results import STRATA, Results, stated
from srrag.lab.report.row import Failure, Row, spreads
from srrag.lab.report.view import (
    COSTS,
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
from srrag.storage.atomic_write import commit

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


_ASSETS = Path(__file__).parent / "page"


def render(title: str, summary: str, sections: Sequence[BenchmarkSection]) -> str:
    """The page of these sections."""
    script, style = ((_ASSETS / name).read_text("utf-8") for name in ("report.js", "report.css"))
    lists, blobs = _packed([each for section in sections for each in section.drilldowns])
    rows = [row for section in sections for row in section.bench.rows]
    numbers = count()
    return _environment().get_template("report.html").render(
        title=title,
        summary=summary,
        sections=[_numbered(section, numbers) for section in sections],
        policy=policy(script, style),
        # The package's own script, not text of a document: a script element must not be escaped.
        script=script,
        style=style,
        grades=STUDIES,
        cost_names=COSTS,
        colours=COLOURS,
        dashes=DASHES,
        versions=common_versions(rows),
        origins=[{"row": row, "pipeline": _pretty(row.pipeline)} for row in rows],
        lists=lists,
        blobs=blobs,
    )  # fmt: skip


def _numbered(section: BenchmarkSection, numbers: Iterator[int]) -> dict[str, Any]:
    """A section with its lists of questions, each with the number that the page looks up."""
    lists = zip(section.drilldowns, numbers, strict=False)
    told = [{"row": each.row, "said": each.said, "number": number} for each, number in lists]
    return {**vars(section), "drilldowns": told}


def _packed(drilldowns: Sequence[Drilldown]) -> tuple[list[list[dict[str, Any]]], list[str]]:
    """Return the entries of each list of questions, and the packed details that they index."""
    lists: list[list[dict[str, Any]]] = []
    blobs: list[str] = []
    for some in drilldowns:
        lists.append(
            [
                {
                    "id": each.query_id,
                    **{n: getattr(each, n) for n in ("text", "value", "baseline", "state")},
                    "packed": number,
                }
                for number, each in enumerate(some.shown, start=len(blobs))
            ]
        )
        blobs += [each.packed for each in some.shown]
    return lists, blobs


@cache
def _environment() -> Environment:
    environment = templates(_ASSETS)
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """Allow line breaks in a name after the characters that join its words."""
    return Markup("<wbr>").join(re.split(r"(?<=[_/+=,])", name))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) if value else ""


def write_report(
    results: Results, sections: Sequence[BenchmarkSection], title: str, out: Path
) -> Path:
    """Write the page; returns its path."""
    text = render(title, f"{_counted(results, sections)} Made from {results.folder}.", sections)
    path = out / "report.html"
    commit(path, partial(_write, text))
    return path


def _write(text: str, path: Path) -> None:
    path.write_text(text, "utf-8")


def _counted(results: Results, sections: Sequence[BenchmarkSection]) -> str:
    rows, benchmarks = len(results.rows), len(sections)
    return f"{rows} row{'s' * (rows != 1)} on {benchmarks} benchmark{'s' * (benchmarks != 1)}."
