"""`python -m perf.figures`: writes docs/figures.md from results/README.md and results/*.json.

A file is one table, `{"title", "about", "rows"}`, and a row one figure: name, value, interval (two
numbers or null), unit, kind, command, commit, date and machine. Rows of one name, kind and origin
share a line of the page, with a column a unit. Figures keep the digits that the file has.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "figures.md"
KINDS = ("blind", "held out", "cross-fitted", "tuned", "played", "recorded", "measured")
USUAL = ("2 shared cores", "a capable model, by hand")
"""Machines that the head of the page names, so that no line does."""
FIELDS = {"name", "value", "interval", "unit", "kind", "command", "commit", "date", "machine"}


def read_table(path: Path) -> dict[str, Any]:
    """One file of results, its numbers as they are written there."""
    table: dict[str, Any] = json.loads(path.read_text("utf-8"), parse_float=str, parse_int=str)
    for number, row in enumerate(table["rows"], 1):
        if set(row) != FIELDS:
            raise ValueError(f"{path.name}, row {number}: {set(row) ^ FIELDS} are missing or more")
        if row["kind"] not in KINDS or not row["command"]:
            raise ValueError(f"{path.name}, row {number}: no command, or no kind of {KINDS}")
    return table


def number(text: str) -> str:
    """A number as the pages write it: .5, −.5, 12,345."""
    sign, digits = ("−", text[1:]) if text.startswith("-") else ("", text)
    whole, point, rest = digits.partition(".")
    if "e" in digits:
        return text
    shown = f"{int(whole):,}" if int(whole) or not point else ""
    return f"{sign}{shown}{point}{rest}"


def cell(row: dict[str, Any]) -> str:
    """Value and interval."""
    ends = f" [{', '.join(map(number, row['interval']))}]" if row["interval"] else ""
    return number(row["value"]) + ends


def origin(row: dict[str, Any]) -> str:
    """Where a figure comes from."""
    machine = () if row["machine"] in USUAL else (row["machine"],)
    made = ", ".join((row["commit"], row["date"], *machine))
    return f"*{row['kind']}*: `{row['command']}` ({made})"


def block(rows: list[dict[str, Any]]) -> str:
    """Figures in one grid: a line a name and origin, a column a unit."""
    units = list(dict.fromkeys(row["unit"] for row in rows))
    origins = list(dict.fromkeys(map(origin, rows)))
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        lines.setdefault((row["name"], origin(row)), {})[row["unit"]] = cell(row)
    one = len(origins) == 1
    grid = [["", *units, *([] if one else ["from"])]]
    grid += [["---"] * len(grid[0])]
    for (name, source), found in lines.items():
        place = [] if one else [str(origins.index(source) + 1)]
        grid.append([name, *(found.get(unit, "") for unit in units), *place])
    sources = origins if one else [f"{place}. {text}" for place, text in enumerate(origins, 1)]
    return "\n".join([*("|" + "|".join(line) + "|" for line in grid), "", *sources, ""])


def section(table: dict[str, Any]) -> str:
    """A table of the page; figures without a unit of those before begin a grid."""
    blocks: list[list[dict[str, Any]]] = []
    for _, group in groupby(table["rows"], key=origin):
        rows = list(group)
        if blocks and {row["unit"] for row in rows} & {row["unit"] for row in blocks[-1]}:
            blocks[-1] += rows
        else:
            blocks.append(rows)
    return "\n".join([f"\n## {table['title']}\n\n{table['about']}\n", *map(block, blocks)])


def page(results: Path) -> str:
    """The page of all tables below `results`, by the names of their files."""
    head = (results / "README.md").read_text("utf-8")
    return head + "".join(section(read_table(path)) for path in sorted(results.glob("*.json")))


if __name__ == "__main__":
    PAGE.write_text(page(REPOSITORY / "results"), "utf-8")
