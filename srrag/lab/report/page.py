"""The report as one HTML page that works offline and escapes all text of documents."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from srrag.core.html import policy, templates
from srrag.core.standing import STUDIES
from srrag.lab.report.curve import COLOURS, DASHES
from srrag.lab.report.drilldown import Drilldown
from srrag.lab.report.results import Results
from srrag.lab.report.section import BenchmarkSection, common_versions
from srrag.lab.report.view import COSTS
from srrag.storage.atomic_write import commit

_ASSETS = Path(__file__).parent / "page"


def render(title: str, summary: str, sections: Sequence[BenchmarkSection]) -> str:
    """The page of these sections."""
    script, style = ((_ASSETS / name).read_text("utf-8") for name in ("report.js", "report.css"))
    lists, blobs = _packed([each for section in sections for each in section.drilldowns])
    rows = [row for section in sections for row in section.bench.rows]
    return _environment().get_template("report.html").render(
        title=title,
        summary=summary,
        sections=[_Shown(section, lists) for section in sections],
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
        lists=[entries for _, entries in lists],
        blobs=blobs,
    )  # fmt: skip


class _Shown:
    """A section with its lists of questions, each with the number that the page looks up."""

    def __init__(self, section: BenchmarkSection, lists: Sequence[tuple[Drilldown, Any]]) -> None:
        self.__dict__.update(vars(section))
        own = {id(each): number for number, (each, _) in enumerate(lists)}
        self.drilldowns = [
            {"row": each.row, "said": each.said, "number": own[id(each)]}
            for each in section.drilldowns
        ]


def _packed(drilldowns: Sequence[Drilldown]) -> tuple[list[tuple[Drilldown, Any]], list[str]]:
    """Return the entries of each list of questions, and the packed details that they index."""
    blobs: list[str] = []
    lists = []
    for drilldown in drilldowns:
        entries = []
        for each in drilldown.shown:
            entries.append(
                {
                    "id": each.query_id,
                    "text": each.text,
                    "value": each.value,
                    "baseline": each.baseline,
                    "state": each.state,
                    "packed": len(blobs),
                }
            )
            blobs.append(each.packed)
        lists.append((drilldown, entries))
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
