"""The report as Markdown: the same tables, with the plots as files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from srrag.core.grades import STUDIES
from srrag.lab.report import numbers
from srrag.lab.report.breakdown import Breakdown
from srrag.lab.report.drilldown import Drilldown
from srrag.lab.report.row import Row
from srrag.lab.report.section import BenchmarkSection, common_versions
from srrag.lab.report.view import COSTS, BenchmarkView, Cell, Column, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&$~])")


def render(
    title: str,
    summary: str,
    sections: Sequence[BenchmarkSection],
    plots: Mapping[tuple[str, str], str],
) -> str:
    """The report; `plots` names the file of each benchmark and metric."""
    lines = [f"# {_plain(title)}", "", _plain(summary), ""]
    for section in sections:
        lines += _section(section, plots)
    grades = "; ".join(f"{letter} {study}" for letter, study in STUDIES.items())
    lines += ["## Evidence grades", "", f"From the strongest design to the weakest: {grades}.", ""]
    lines += _provenance([row for section in sections for row in section.bench.rows])
    return "\n".join(lines)


def _section(section: BenchmarkSection, plots: Mapping[tuple[str, str], str]) -> Iterator[str]:
    bench = section.bench
    judged = f" Judged by {'; '.join(bench.judges)}." if bench.judges else ""
    yield from (f"## {_plain(bench.name)}", "", _plain(section.size + judged), "")
    if section.lost:
        yield from (*(f"- **{_plain(each)}.**" for each in section.lost), "")
    yield from _systems(section.table, costs=True)
    yield from (_plain(section.explained), "")
    if section.seeds:
        yield from ("### Over seeds", "", "Mean ± SD over the seeds of the engine.", "")
        heads = ["system", "seeds", *(column.title for column in bench.main)]
        yield from _grid(heads, [[s.name, s.seeds, *s.cells] for s in section.seeds], 3)
    if section.failures:
        yield from ("### Failures", "")
        rows = [[row, f.query_id, f.stage, f.reason, f.detail] for row, f in section.failures]
        yield from _grid(["system", "question", "where", "why", "detail"], rows)
        if section.more_failures:
            yield from (f"and {section.more_failures} more.", "")
    yield from (
        f"![{_plain(column.title)}]({plots[bench.name, column.name]})"
        for column in bench.main
        if (bench.name, column.name) in plots
    )
    yield ""
    named = [curve.named for curve in section.curves]
    if shown := [name for name in named if (bench.name, name) in plots]:
        yield from ("### Curves", "")
        yield from (f"![{_plain(name)}]({plots[bench.name, name]})" for name in shown)
        yield ""
    if section.differences:
        yield from ("### Differences to the baseline", "")
        heads = ["system", "metric", "difference", "p", "p (Holm)", "p (McNemar)"]
        rows = [
            [d.row, d.metric, _cell(d.cell), *(p.text for p in d.ps)] for d in section.differences
        ]
        yield from _grid(heads, rows, 3)
        yield from _notes(section.difference_notes)
    if section.others:
        yield from ("### Other metrics", "")
        yield from _systems(section.others, costs=False)
    if section.breakdowns:
        yield from (f"### By {section.kinds}", "", section.breakdown_note, "")
        for metric, parts in section.breakdowns:
            yield from _broken_down(metric, parts, bench)
    if section.drilldowns:
        yield from ("### Questions", "", "Failures first, then the largest losses against the "
                    "baseline, then the lowest values; the page opens each one.", "")  # fmt: skip
        for drilldown in section.drilldowns:
            yield from _questions(drilldown)


def _systems(table: Table, costs: bool) -> Iterator[str]:
    heads = ["system"]
    heads += [c.title + (f" (n = {c.questions})" if c.questions else "") for c in table.columns]
    rows = []
    for line in table.lines:
        name = line.row.name + (" (baseline)" if line.is_baseline else "")
        name += " (no effect)" if line.row.unmoved else ""
        if line.row.state == "failed":
            rows.append([name, f"failed: {line.row.reason}"])
        else:
            rows.append([name, *map(_cell, (*line.cells, *(line.costs if costs else ())))])
    yield from _grid([*heads, *(COSTS if costs else ())], rows, 2)
    yield from _notes(table.notes)


def _broken_down(metric: Column, parts: Sequence[Breakdown], bench: BenchmarkView) -> Iterator[str]:
    rows = [
        [part.kind, stratum.name, numbers.count(stratum.questions), *map(_cell, stratum.cells)]
        for part in parts
        for stratum in part.strata
    ]
    yield from (f"**{_plain(metric.title)}**", "")
    yield from _grid(["", "", "n", *(row.name for row in bench.rows)], rows, 3)


def _questions(drilldown: Drilldown) -> Iterator[str]:
    yield from (f"**{_plain(drilldown.row)}**: {_plain(drilldown.said)}", "")
    rows = [
        [
            each.query_id,
            each.text,
            each.state,
            numbers.NONE if each.value is None else numbers.plain(each.value),
            numbers.NONE if each.baseline is None else numbers.plain(each.baseline),
        ]
        for each in drilldown.shown
    ]
    yield from _grid(["id", "question", "", "value", "baseline"], rows, 4)


def _provenance(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("## Provenance", "")
    if common := common_versions(rows):
        yield from (f"All systems: {_plain(common)}.", "")
    for row in rows:
        yield from (f"### {_plain(row.name)} ({_plain(row.bench)})", "")
        yield from ("```", row.command.replace("```", "` ` `"), "```", "")
        own = {} if common else {"versions": row.versions}
        for name, entries in {
            "models": row.models,
            "fingerprints": row.fingerprints,
            **own,
        }.items():
            stated = ", ".join(f"{key} {value}" for key, value in entries.items()) or "none"
            yield f"- {name}: {_plain(stated)}"
        if row.judge:
            yield f"- judge: {_plain(row.judge)}"
        yield ""


def _cell(cell: Cell) -> str:
    note = f" ({cell.note})" if cell.note else ""
    interval = f" [{cell.interval}]" if cell.interval else ""
    return f"{cell.text}{interval}{' ' + cell.mark if cell.mark else ''}{note}"


def _notes(texts: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        yield from (f"({number}) {_plain(text)}.", "")


def _grid(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right_from: int = 0
) -> Iterator[str]:
    """Yield the lines of a table; columns from the `right_from`-th (from 1) are right-aligned."""
    yield _line(heads)
    rule = ("---:" if right_from and n >= right_from else "---" for n in range(1, len(heads) + 1))
    yield f"|{'|'.join(rule)}|"
    yield from (_line([*row, *[""] * (len(heads) - len(row))]) for row in rows)
    yield ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Escape a text for Markdown and put it on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
