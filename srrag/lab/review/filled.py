"""Review sheets: one HTML file filled in offline, and the ratings that come back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from srrag.core.html import policy, templates
from srrag.lab.review.kit import Item, Kit, passage
from srrag.lab.review.scales import DIMENSIONS, GUIDE, KEYS, off_scale
from srrag.storage.atomic_write import read_json

LAYOUT = 1
"""Of the JSON that the page saves and `read_json_sheet` reads."""

_ASSETS = Path(__file__).parent / "sheet"
_MARKER = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]")


@dataclass(frozen=True)
class Piece:
    """A stretch of an answer; `number` is set where it is a citation of shown evidence."""

    text: str
    number: int | None = None


def write_page(kit: Kit, path: Path) -> None:
    """Write the page."""
    path.write_text(render(kit), "utf-8")


def render(kit: Kit) -> str:
    """The page. Texts are escaped, and no script but its own runs; it asks the network nothing."""
    script, style = ((_ASSETS / name).read_text("utf-8") for name in ("sheet.js", "sheet.css"))
    return _environment().get_template("sheet.html").render(
        kit=kit,
        guide=GUIDE,
        dimensions=DIMENSIONS,
        policy=policy(script, style),
        # The package's own script, not text of a document: a script element must not be escaped.
        script=script,
        style=style,
        rules=_rules(kit),
        blinded=len(kit.systems) > 1,
    )  # fmt: skip


def paragraphs(item: Item) -> list[list[Piece]]:
    """The paragraphs of an answer, with its citations apart from the text."""
    shown = {piece["number"] for piece in item.evidence}
    return [list(_pieces(text, shown)) for text in item.answer.split("\n") if text.strip()]


def _pieces(text: str, shown: set[Any]) -> Iterator[Piece]:
    end = 0
    for marker in _MARKER.finditer(text):
        numbers = [int(number) for number in marker[1].split(",")]
        if not shown.issuperset(numbers):
            continue
        yield Piece(text[end : marker.start()])
        for number in numbers:
            yield Piece(f"[{number}]", number)
        end = marker.end()
    yield Piece(text[end:])


def _rules(kit: Kit) -> str:
    """Return the settings of the page's script as JSON for an attribute."""
    return json.dumps(
        {
            "layout": LAYOUT,
            "sample": kit.sample,
        }
    )


@cache
def _environment() -> Environment:
    found = templates(_ASSETS)
    found.globals |= {"paragraphs": paragraphs, "passage": passage}
    return found


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
    rows: Sequence[tuple[str, Mapping[str, Any]]]


def read_sheets(paths: Iterable[Path], sample: str, items: Iterable[str]) -> list[Rating]:
    """Read the sheets of one sample; items that a rater left out have only empty ratings.

    Raises ValueError that names file, row and column: an item that the sample lacks, a rating off
    its scale, the same rater twice on one item, a sheet without a rating or of another sample.
    """
    known = tuple(items)
    ratings: list[Rating] = []
    first: dict[tuple[str, str], str] = {}
    for path in paths:
        sheet = _read(path)
        _check_sheet(sheet, sample)
        found = [_rating(sheet, place, row, known) for place, row in sheet.rows]
        if not any(value is not None for each in found for value in each.values.values()):
            raise ValueError(f"{path}: no item is rated")
        left = [name for name in known if name not in {each.item for each in found}]
        blank = dict.fromkeys(KEYS)
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
    head = {key: str(content.get(key) or "") for key in ("rater", "sample")}
    named = [(f"{path}: row {number}", row) for number, row in enumerate(rows, start=1)]
    return Sheet(path, **head, rows=named)


def _check_sheet(sheet: Sheet, sample: str) -> None:
    if sheet.sample != sample:
        raise ValueError(
            f"{sheet.path}: a sheet of sample {sheet.sample!r}; the key's is {sample!r}"
        )
    if not sheet.rater.strip():
        raise ValueError(f"{sheet.path}: the rater's name is missing")


def _rating(sheet: Sheet, place: str, row: Mapping[str, Any], known: Sequence[str]) -> Rating:
    item = row.get("item")
    if item not in known:
        raise ValueError(f"{place}, column 'item': {item!r} is not in this sample")
    values = {key: _value(row.get(key), f"{place}, column {key!r}") for key in KEYS}
    if fault := off_scale(values):
        raise ValueError(f"{place}, column {fault[0]!r}: {fault[1]}")
    comment = row.get("comment")
    return Rating(sheet.rater.strip(), str(item), values, str(comment or "").strip(), place)


def _value(value: Any, place: str) -> int | None:
    """A rating as a whole number."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{place}: {value!r} is not a whole number")
    return value
