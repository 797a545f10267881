"""Filled sheets read back: every rating with its rater, or the file, row and scale at fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srrag.lab.review.forms import Form
from srrag.lab.review.page import LAYOUT
from srrag.storage.atomic_write import read_json


@dataclass(frozen=True)
class Rating:
    """What one rater gave one item; None where a scale was left empty."""

    rater: str
    item: str
    values: Mapping[str, int | None]
    comment: str
    place: str
    """File and row, for messages."""


@dataclass(frozen=True)
class Sheet:
    """A filled sheet before it is checked; `rows` have their place in the file."""

    path: Path
    rater: str
    sample: str
    form: str
    rows: Sequence[tuple[str, Mapping[str, Any]]]


def read_sheets(
    paths: Iterable[Path], form: Form, sample: str, items: Iterable[str]
) -> list[Rating]:
    """Read the sheets of one sample; items that a rater left out have only empty ratings.

    Raises ValueError that names file, row and column: an item that the sample lacks, a rating off
    its scale, the same rater twice on one item, a sheet without a rating or of another sample.
    """
    known = tuple(items)
    ratings: list[Rating] = []
    first: dict[tuple[str, str], str] = {}
    for path in paths:
        sheet = _read(path)
        _check_sheet(sheet, form, sample)
        found = [_rating(sheet, form, place, row, known) for place, row in sheet.rows]
        if not any(value is not None for each in found for value in each.values.values()):
            raise ValueError(f"{path}: no item is rated")
        left = [name for name in known if name not in {each.item for each in found}]
        blank = dict.fromkeys(form.keys)
        found += [Rating(sheet.rater, name, blank, "", str(path)) for name in left]
        for each in found:
            key = (each.rater.casefold(), each.item)
            if key in first:
                raise ValueError(
                    f"{each.place}, column 'item': rater {each.rater!r} rated {each.item} already "
                    f"in {first[key]}"
                )
            first[key] = each.place
        ratings += found
    return ratings


def sheet_files(given: Sequence[Path]) -> list[Path]:
    """List the files, and the .json files of folders; ValueError names any other path."""
    found: list[Path] = []
    for path in given:
        if not path.exists():
            raise ValueError(f"import={path} does not exist")
        inside = sorted(path.glob("*.json")) if path.is_dir() else []
        if path.is_dir() and not inside:
            raise ValueError(f"import={path}: the folder holds no .json file")
        found += inside or [path]
    return found


def _read(path: Path) -> Sheet:
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != "srrag review":
        raise ValueError(f"{path}: not a filled review sheet")
    if content.get("layout") != LAYOUT:
        raise ValueError(f"{path}: layout {content.get('layout')!r}; this version reads {LAYOUT}")
    rows = content.get("ratings")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: 'ratings' is not a list of ratings")
    head = {key: str(content.get(key) or "") for key in ("rater", "sample", "form")}
    named = [(f"{path}: row {number}", row) for number, row in enumerate(rows, start=1)]
    return Sheet(path, **head, rows=named)


def _check_sheet(sheet: Sheet, form: Form, sample: str) -> None:
    if sheet.sample != sample:
        raise ValueError(
            f"{sheet.path}: a sheet of sample {sheet.sample!r}; the key's is {sample!r}"
        )
    if sheet.form != form.name:
        raise ValueError(f"{sheet.path}: form {sheet.form!r}; the key's is {form.name!r}")
    if not sheet.rater.strip():
        raise ValueError(f"{sheet.path}: the rater's name is missing")


def _rating(
    sheet: Sheet, form: Form, place: str, row: Mapping[str, Any], known: Sequence[str]
) -> Rating:
    item = row.get("item")
    if item not in known:
        raise ValueError(f"{place}, column 'item': {item!r} is not in this sample")
    values = {key: _value(row.get(key), f"{place}, column {key!r}") for key in form.keys}
    if fault := form.fault(values):
        raise ValueError(f"{place}, column {fault[0]!r}: {fault[1]}")
    comment = row.get("comment")
    return Rating(sheet.rater.strip(), str(item), values, str(comment or "").strip(), place)


def _value(value: Any, place: str) -> int | None:
    """A rating as a whole number."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{place}: {value!r} is not a whole number")
    return value
