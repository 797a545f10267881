"""The review files: questions ordered by how much they need a look, as JSON lines and a sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, Cell
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.datavalidation import DataValidation

from srrag.core.rows import Row

SHEET = "questions"
FILLED_IN = (
    "decision", "revised_question", "revised_exact_answer", "revised_nuggets",
    "revised_certainty", "wrong_gold", "comment",
)  # fmt: skip
"""The columns that reviewers fill in."""
_WIDTHS = {
    "query_id": 12, "look_first": 18, "track": 10, "certainty": 11, "grade": 7, "condition": 10,
    "question": 45, "picot": 40, "seed": 24, "window": 70, "exact_answer": 50,
    "ideal_answer": 60, "nuggets": 45, "gold": 70, "certainty_reason": 25, "decision": 11,
    "revised_question": 40, "revised_exact_answer": 40, "revised_nuggets": 40,
    "revised_certainty": 12, "wrong_gold": 12, "comment": 30,
}  # fmt: skip
_MAX_CELL_CHARS = 32_000
_GUIDE = (
    ("What to do", "Read a row, then choose a decision. An empty decision leaves it open."),
    ("accept", "Question, answers, nuggets and gold windows are right as they stand."),
    ("revise", "Right but for what you write into the revised_… columns."),
    ("reject", "Not a question that this window answers, or of no clinical use: it is left out."),
    ("look_first", "Why a row stands at the top. Rows without a reason come last."),
    ("track", "challenge: the baseline did not find the seed window; accepted ones are taken in."),
    ("revised_nuggets", "One fact a line; 'okay: …' for what is good to have, else it is vital."),
    ("revised_certainty", "sufficient or uncertain."),
    ("wrong_gold", "Numbers of gold windows that do not support an answer, such as 2 5."),
    ("window", "What the question was written from; it has to be answerable from this alone."),
    ("query_id, question", "Leave as they are: by them your decision finds its question."),
)


def flags(row: Row) -> list[str]:
    """List why a question needs a look: challenge, uncertain, ungraded candidates, seed alone."""
    counts = row["counts"]
    seed_alone = {each["unit_id"] for each in row["gold"]} == {row["seed"]["unit_id"]}
    return [
        name
        for name, holds in (
            ("challenge", row["track"] == "challenge"),
            ("uncertain", row["certainty"] == "uncertain"),
            ("not_graded", counts["not_graded"] > 0),
            ("seed_alone", seed_alone),
        )
        if holds
    ]


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Sort questions: challenge and uncertain first, then challenge, uncertain, the rest."""

    def urgency(row: Row) -> tuple[Any, ...]:
        found = flags(row)
        return (
            -sum(name in found for name in ("challenge", "uncertain")),
            "challenge" not in found,
            -len(found),
            row["condition"],
            row["query_id"],
        )

    return sorted(rows, key=urgency)


def review_rows(rows: Sequence[Row], windows: Mapping[str, str]) -> list[Row]:
    """Return the rows for a reviewer, with empty columns to fill in.

    `windows` maps a question to the text of its seed window.
    """
    return [
        {
            "query_id": row["query_id"],
            "look_first": ", ".join(flags(row)),
            **{name: row[name] for name in ("track", "certainty", "grade", "condition")},
            "certainty_reason": row["certainty_reason"],
            "question": cell_text(row["text"]),
            "picot": "\n".join(f"{k}: {v}" for k, v in row["picot"].items() if v),
            "exact_answer": row["exact_answer"],
            "ideal_answer": row["ideal_answer"],
            "nuggets": "\n".join(f"{n['importance']}: {n['text']}" for n in row["nuggets"]),
            "gold": "\n\n".join(
                f"{n}. [{g['grade'] or '–'}] {g['doc']} ({g['support']}): {g['quote']}"
                for n, g in enumerate(row["gold"], start=1)
            ),
            "seed": row["seed"]["doc"],
            "window": windows[row["query_id"]],
            **dict.fromkeys(FILLED_IN, ""),
        }
        for row in in_order(rows)
    ]


def write_sheet(path: Path, rows: Sequence[Row]) -> None:
    """Write review rows as a spreadsheet: a guide, and a sheet with a list of decisions."""
    book = Workbook()
    guide = book.active
    guide.title = "guide"
    for line in _GUIDE:
        guide.append(line)
        guide.cell(guide.max_row, 1).font = Font(bold=True)
    guide.column_dimensions["A"].width, guide.column_dimensions["B"].width = 24, 100
    sheet = book.create_sheet(SHEET)
    sheet.append(list(_WIDTHS))
    for row in rows:
        _append(sheet, [cell_text(row[name]) for name in _WIDTHS])
    _style(sheet, len(rows))
    book.active = 1
    book.save(path)


def _append(sheet: Any, values: Sequence[str]) -> None:
    """Add a row of texts; a text that begins with "=" never becomes a formula."""
    number = sheet.max_row + 1
    for column, value in enumerate(values, start=1):
        cell: Cell = sheet.cell(number, column)
        cell.value, cell.data_type = value, "s"
        cell.alignment = Alignment(wrap_text=True, vertical="top")


def _style(sheet: Any, num_rows: int) -> None:
    sheet.freeze_panes = "B2"
    fill = PatternFill("solid", fgColor="FFF2CC")
    for column, (name, width) in enumerate(_WIDTHS.items(), start=1):
        letter = get_column_letter(column)
        sheet.column_dimensions[letter].width = width
        head = sheet.cell(1, column)
        head.font = Font(bold=True)
        for number in range(1, num_rows + 2) if name in FILLED_IN else ():
            sheet.cell(number, column).fill = fill
        lists = {"decision": "accept,revise,reject", "revised_certainty": "sufficient,uncertain"}
        if name in lists and num_rows:
            choice = DataValidation(type="list", formula1=f'"{lists[name]}"', allow_blank=True)
            choice.add(f"{letter}2:{letter}{num_rows + 1}")
            sheet.add_data_validation(choice)
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(_WIDTHS))}{num_rows + 1}"


def cell_text(text: str) -> str:
    """Make a text fit a cell: drop control characters and cut it to the longest length."""
    clean: str = ILLEGAL_CHARACTERS_RE.sub(" ", text)
    return clean.replace("\r\n", "\n").replace("\r", "\n").strip()[:_MAX_CELL_CHARS]
