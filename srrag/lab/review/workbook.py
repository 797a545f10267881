"""The review sheet as a spreadsheet whose cells accept only the values of their scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.styles import Alignment, Font, PatternFill, Protection
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from srrag.lab.review.forms import Dimension, Form
from srrag.lab.review.kit import Kit, passage

RATINGS, EVIDENCE, START = "Ratings", "Evidence", "Start"
FIRST_ROW = 2
TEXTS = ("item", "question", "reference", "answer")
NAME_CELL, SAMPLE_CELL, FORM_CELL = "B1", "B2", "B3"

_MAX_CHARS = 32_000
"""Excel takes 32,767 characters a cell."""

_HEAD = PatternFill("solid", fgColor="DDE6F0")
_OPEN = PatternFill("solid", fgColor="FFF9E5")
_TOP = Alignment(wrap_text=True, vertical="top")
_MIDDLE = Alignment(horizontal="center", vertical="top")


def write_workbook(kit: Kit, form: Form, path: Path) -> None:
    """Write the sheets Start (name, scales), Ratings (a row an answer) and Evidence."""
    book = Workbook()
    book.remove(book.active)
    _start(book.create_sheet(START), kit, form)
    _ratings(book.create_sheet(RATINGS), kit, form)
    _evidence(book.create_sheet(EVIDENCE), kit)
    with path.open("wb") as file:
        book.save(file)


def _start(sheet: Worksheet, kit: Kit, form: Form) -> None:
    rows: list[Sequence[Any]] = [
        ("Your name or initials", ""),
        ("Sample (leave as it is)", kit.sample),
        ("Form (leave as it is)", form.name),
        (),
        (form.title,),
        (form.guide,),
        ("Rate in the sheet Ratings; what each answer cites stands in the sheet Evidence.",),
        (),
        ("Scale", "Value", "Meaning"),
    ]
    head = len(rows)
    for each in form.dimensions:
        rows.append((each.title, "", each.asks))
        rows += [("", value, anchor) for value, anchor in each.levels.items()]
    for number, row in enumerate(rows, start=1):
        _write(sheet, number, row)
    for number in (6, 7):
        sheet.merge_cells(start_row=number, start_column=1, end_row=number, end_column=3)
    sheet.row_dimensions[6].height = 62
    _finish(sheet, (30, 26, 90), head)
    name = sheet[NAME_CELL]
    name.fill, name.protection = _OPEN, Protection(locked=False)


def _ratings(sheet: Worksheet, kit: Kit, form: Form) -> None:
    _write(sheet, 1, (*TEXTS, *form.keys, "comment"))
    last = FIRST_ROW + len(kit.items) - 1
    for number, each in enumerate(kit.items, start=FIRST_ROW):
        _write(sheet, number, (each.item, each.question, each.reference, each.answer))
        for column in range(len(TEXTS) + 1, len(TEXTS) + len(form.keys) + 2):
            cell = sheet.cell(number, column)
            cell.fill, cell.protection = _OPEN, Protection(locked=False)
            cell.alignment = _TOP if column > len(TEXTS) + len(form.keys) else _MIDDLE
    for column, dimension in enumerate(form.dimensions, start=len(TEXTS) + 1):
        letter = get_column_letter(column)
        rule = _rule(form, dimension, letter)
        sheet.add_data_validation(rule)
        rule.add(f"{letter}{FIRST_ROW}:{letter}{last}")
    _finish(sheet, (10, 40, 50, 70, *[14] * len(form.keys), 40), 1)
    sheet.freeze_panes = f"B{FIRST_ROW}"


def _rule(form: Form, dimension: Dimension, letter: str) -> DataValidation:
    """A whole number of the scale; of a form whose first scale limits others, one it leaves."""
    low, high = min(dimension.levels), max(dimension.levels)
    lead = get_column_letter(len(TEXTS) + 1)
    if form.given_first is None or dimension is form.dimensions[0]:
        rule = DataValidation(
            type="whole", operator="between", formula1=str(low), formula2=str(high)
        )
    else:
        cell, first = f"{letter}{FIRST_ROW}", f"${lead}{FIRST_ROW}"
        spans = (
            f"AND({first}={value},{cell}>={min(left)},{cell}<={max(left)})"
            for value, left in form.given_first.items()
        )
        rule = DataValidation(
            type="custom", formula1=f"AND(INT({cell})={cell},OR({','.join(spans)}))"
        )
    rule.allow_blank = True
    rule.showInputMessage = rule.showErrorMessage = True
    rule.promptTitle = dimension.title[:32]
    rule.prompt = "\n".join(f"{value}: {text}" for value, text in dimension.levels.items())[:255]
    rule.errorTitle = dimension.title[:32]
    rule.error = f"A whole number from {dimension.span} that goes with the others."
    return rule


def _evidence(sheet: Worksheet, kit: Kit) -> None:
    columns = ("number", "grade", "year", "title", "section", "source_id", "pmid")
    _write(sheet, 1, ("item", *columns, "text"))
    rows: Iterator[tuple[Any, ...]] = (
        (each.item, *(piece[name] or "" for name in columns), passage(piece))
        for each in kit.items
        for piece in each.evidence
    )
    for number, row in enumerate(rows, start=2):
        _write(sheet, number, row)
    _finish(sheet, (10, 8, 7, 7, 45, 22, 28, 12, 90), 1)
    sheet.freeze_panes = "B2"


def _write(sheet: Worksheet, number: int, row: Sequence[Any]) -> None:
    for column, value in enumerate(row, start=1):
        cell = sheet.cell(number, column)
        cell.alignment = _TOP
        if isinstance(value, str):
            cell.value = ILLEGAL_CHARACTERS_RE.sub(" ", value)[:_MAX_CHARS]
            # A text that begins with = stays a text.
            cell.data_type = "s"
        else:
            cell.value = value


def _finish(sheet: Worksheet, widths: Sequence[int], head: int) -> None:
    """Widths, a heading that stands out, and no changes but in the open cells."""
    for column, width in enumerate(widths, start=1):
        sheet.column_dimensions[get_column_letter(column)].width = width
        sheet.cell(head, column).font = Font(bold=True)
        sheet.cell(head, column).fill = _HEAD
    sheet.protection.sheet = True
    sheet.protection.formatRows = sheet.protection.formatColumns = False
    sheet.page_setup.orientation = "landscape"
    sheet.page_setup.fitToHeight = 0
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
