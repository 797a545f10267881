"""The review sheet as one HTML file: filled in offline in a browser, saved as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from srrag.core.html import policy, templates
from srrag.lab.review.forms import Form
from srrag.lab.review.kit import Item, Kit, passage

LAYOUT = 1
"""Of the JSON that the page saves and `read_json_sheet` reads."""

_ASSETS = Path(__file__).parent / "sheet"
_MARKER = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]")


@dataclass(frozen=True)
class Piece:
    """A stretch of an answer; `number` is set where it is a citation of shown evidence."""

    text: str
    number: int | None = None


def write_page(kit: Kit, form: Form, path: Path) -> None:
    """Write the page."""
    path.write_text(render(kit, form), "utf-8")


def render(kit: Kit, form: Form) -> str:
    """The page. Texts are escaped, and no script but its own runs; it asks the network nothing."""
    script, style = ((_ASSETS / name).read_text("utf-8") for name in ("sheet.js", "sheet.css"))
    return _environment().get_template("sheet.html").render(
        kit=kit,
        form=form,
        policy=policy(script, style),
        # The package's own script, not text of a document: a script element must not be escaped.
        script=script,
        style=style,
        rules=_rules(kit, form),
        blinded=len(kit.systems) > 1,
    )  # fmt: skip


def paragraphs(item: Item) -> list[list[Piece]]:
    """The paragraphs and list items of an answer, with its citations apart from the text."""
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


def _rules(kit: Kit, form: Form) -> str:
    """Return the settings of the page's script as JSON for an attribute."""
    given = form.given_first
    return json.dumps(
        {
            "layout": LAYOUT,
            "sample": kit.sample,
            "form": form.name,
            "dimensions": form.keys,
            "items": [each.item for each in kit.items],
            "given_first": None if given is None else {str(k): v for k, v in given.items()},
        }
    )


@cache
def _environment() -> Environment:
    found = templates(_ASSETS)
    found.globals |= {"paragraphs": paragraphs, "passage": passage}
    return found
