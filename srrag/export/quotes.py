"""The sentence around a mention, with the mention marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.units import Units

MAX_CHARS = 360

_BORDER = re.compile(
    r"\n\s*\n"  # a paragraph ends
    r"|(?:\A|\n)[ \t]*#{1,6}[^\n]*(?:\n|\Z)"  # a heading is no part of a sentence
    r"|\n(?=[ \t]*(?:[-*+•|]|\d{1,3}[.)])\s)"  # an item of a list or a row of a table begins
    r"|(?<!\bal)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)(?<!\b[Ff]ig)(?<!\bca)"
    r"[.!?][\"'”’)\]]*\s+(?=[\"'“(\[]?[A-Z0-9])"
)
_MARKS = re.compile(r"\*\*|__|`|\A\s*(?:[-*+•|]|\d{1,3}[.)])[ \t]+")


class ContextQuote(NamedTuple):
    """Text before, of and after a mention, on one line."""

    before: str
    text: str
    after: str


class QuotedPassage(NamedTuple):
    """A window of a document: its span in the document, its section and its text."""

    start: int
    end: int
    section: str
    text: str


class Passages:
    """The windows of some documents."""

    def __init__(self, units: Units, doc_ids: Sequence[str]) -> None:
        """Read the windows of these documents."""
        table = units.units
        mine = pc.is_in(table["doc_id"], value_set=pa.array(doc_ids, pa.string()))
        columns = ["doc_id", "char_start", "char_end", "section", "text"]
        self._windows: dict[str, list[QuotedPassage]] = {}
        for row in table.select(columns).filter(mine).to_pylist():
            passage = QuotedPassage(row["char_start"], row["char_end"], row["section"], row["text"])
            self._windows.setdefault(row["doc_id"], []).append(passage)

    def find(self, doc_id: str, start: int, end: int) -> tuple[ContextQuote, str] | None:
        """The sentence around a span of a document and its section; None if no window has it."""
        best = max(
            self._windows.get(doc_id, ()),
            key=lambda passage: min(end, passage.end) - max(start, passage.start),
            default=None,
        )
        if best is None or best.end <= start or end <= best.start:
            return None
        low, high = max(0, start - best.start), min(len(best.text), end - best.start)
        return quote(best.text, low, high), best.section


def quote(text: str, start: int, end: int) -> ContextQuote:
    """The sentence of `text` around the characters from `start` to `end`, cut where too long."""
    low, high = 0, len(text)
    for border in _BORDER.finditer(text):
        if border.end() <= start:
            low = border.end()
        elif border.start() >= end:
            stop = border[0][0] in ".!?"
            high = border.start() + (len(border[0].rstrip()) if stop else 0)
            break
    room = max(40, (MAX_CHARS - (end - start)) // 2)
    before, after = text[low:start], text[end:high]
    if len(before) > room:
        before = "… " + before[-room:].partition(" ")[2]
    if len(after) > room:
        after = after[:room].rpartition(" ")[0] + " …"
    return ContextQuote(_plain(before), _plain(text[start:end]), _plain(after))


def _plain(text: str) -> str:
    """Without marks of Markdown and on one line; a blank at either end stays one blank."""
    return re.sub(r"\s+", " ", _MARKS.sub("", text))
