"""Tables in Markdown shape, every number under its heading: cells that span are repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_ROWS, MAX_COLUMNS = 5_000, 100


class TableCell(NamedTuple):
    """A cell with the columns and rows that it spans."""

    text: str
    columns: int = 1
    rows: int = 1


def span_of(told: object) -> int:
    """The number of columns or rows in an attribute, from 1 to MAX_COLUMNS; 1 for nonsense."""
    text = str(told or "").strip()
    return min(int(text), MAX_COLUMNS) if text.isdecimal() and len(text) < 9 and int(text) else 1


def grid(rows: Iterable[Sequence[TableCell]]) -> list[list[str]]:
    """Repeat each cell in all columns and rows that it spans."""
    below: dict[int, tuple[str, int]] = {}  # column: text from above, and its rows to come
    filled = []
    for number, row in enumerate(rows):
        if number == MAX_ROWS:
            break
        cells, line = iter(row), list[str]()
        while len(line) < MAX_COLUMNS:
            column = len(line)
            if column in below:
                text, left = below.pop(column)
                line.append(text)
                if left > 1:
                    below[column] = (text, left - 1)
            elif (cell := next(cells, None)) is not None:
                for place in range(column, min(column + cell.columns, MAX_COLUMNS)):
                    line.append(cell.text)
                    if cell.rows > 1:
                        below[place] = (cell.text, cell.rows - 1)
            elif any(later > column for later in below):
                line.append("")  # a short row below a span
            else:
                break
        filled.append(line)
    return filled


def markdown(rows: Iterable[Sequence[TableCell]]) -> Iterator[str]:
    """Yield the lines of a table: the first row, a rule, the other rows."""
    table = [line for line in grid(rows) if line]
    width = max(map(len, table), default=0)
    for number, line in enumerate(table):
        texts = [text.replace("|", "/") for text in line] + [""] * (width - len(line))
        yield f"| {' | '.join(texts)} |"
        if number == 0:
            yield f"|{' --- |' * width}"
