"""Find the borders between blocks of a Markdown text; no name extends over a border."""

from __future__ import annotations

import re
from collections.abc import Sequence

_BREAK = re.compile(
    r"^[ \t]{0,8}#{1,6}[ \t][^\n]*\n"  # the line of a heading
    r"|\n?^[ \t]{0,8}(?:[-*+•]|\d{1,3}[.)])[ \t]"  # the mark of an item
    r"|[ \t\n]\|[ \t\n]",  # the edge of a cell
    re.MULTILINE,
)

Span = tuple[int, int]


def find_breaks(text: str) -> list[Span]:
    """Return the spans [start, end) that separate blocks; the line of a heading is one span."""
    return [match.span() for match in _BREAK.finditer(text)]


def in_blocks(breaks: Sequence[Span], start: int, end: int) -> list[Span]:
    """Split a run at the breaks; a run inside a heading stays whole."""
    inside = [(a, b) for a, b in breaks if a < end and b > start]
    if any(a <= start and end <= b for a, b in inside):
        return [(start, end)]
    starts, ends = [start, *(b for _, b in inside)], [*(a for a, _ in inside), end]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if a < b]
