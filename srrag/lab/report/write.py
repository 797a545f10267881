"""Write a report: one page that works offline, Markdown, and plots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from srrag.lab.report import markdown, page
from srrag.lab.report.curve import draw_curve
from srrag.lab.report.forest import draw
from srrag.lab.report.results import Results
from srrag.lab.report.section import BenchmarkSection
from srrag.storage.atomic_write import commit


def write_report(
    results: Results, sections: Sequence[BenchmarkSection], title: str, out: Path
) -> list[str]:
    """Write the page, the Markdown and the plots; returns the names of the files."""
    plots: dict[tuple[str, str], str] = {}
    for each in sections:
        for forest in each.forests:
            name = f"plots/{_slug(each.bench.name)}-{_slug(forest.metric.name)}.png"
            plots[each.bench.name, forest.metric.name] = name
            commit(out / name, partial(draw, forest))
        for curve in each.curves:
            metric = curve.named
            name = f"plots/{_slug(each.bench.name)}-{_slug(metric)}.png"
            plots[each.bench.name, metric] = name
            commit(out / name, partial(draw_curve, curve))
    summary = f"{_counted(results, sections)} Made from {results.folder}."
    texts = {
        "report.html": page.render(title, summary, sections),
        "report.md": markdown.render(title, summary, sections, plots),
    }
    for name, text in texts.items():
        commit(out / name, lambda path, text=text: path.write_text(text, "utf-8"))  # type: ignore[misc]
    return [*texts, *plots.values()]


def _counted(results: Results, sections: Sequence[BenchmarkSection]) -> str:
    rows, benchmarks = len(results.rows), len(sections)
    return f"{rows} row{'s' * (rows != 1)} on {benchmarks} benchmark{'s' * (benchmarks != 1)}."


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "all"
