"""Split a text into spans of bounded length at the largest breaks (RASRAG, section 1.1).

The paper takes LangChain's RecursiveCharacterTextSplitter. This one follows its rule and keeps the
character spans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from srrag.corpus.blocks import split_sections

SEPARATORS = ("\n\n", "\n", ". ", " ")
"""Where a text is split, largest break first; a run without any is cut at the limit."""

Span = tuple[int, int]


def split_spans(text: str, size: int, separators: tuple[str, ...] = SEPARATORS) -> list[Span]:
    """Return spans of at most `size` characters that hold every non-blank character once, in order.

    A text is cut at its first separator, and neighbouring pieces are joined while they fit. A piece
    that is too long by itself is cut at the next separator. Spans have no outer blanks and do not
    overlap. Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"size is {size}: a text unit has at least 1 character")
    trimmed = (_trimmed(text, *span) for span in _split(text, (0, len(text)), size, separators))
    return [span for span in trimmed if span[0] < span[1]]


def _split(text: str, span: Span, size: int, separators: tuple[str, ...]) -> Iterator[Span]:
    start, end = _trimmed(text, *span)
    if end - start <= size:
        yield start, end
        return
    if not separators:
        yield from ((low, min(low + size, end)) for low in range(start, end, size))
        return
    open_, close = start, start  # the pieces that are joined so far
    for low, high in _pieces(text, (start, end), separators[0]):
        if _length(text, open_, high) <= size:
            close = high
            continue
        if open_ < close:
            yield open_, close
        if _length(text, low, high) > size:
            yield from _split(text, (low, high), size, separators[1:])
            open_ = close = high
        else:
            open_, close = low, high
    if open_ < close:
        yield open_, close


def _pieces(text: str, span: Span, separator: str) -> Iterator[Span]:
    """The stretches between separators; each separator belongs to the piece before it."""
    start, end = span
    while start < end:
        found = text.find(separator, start, end)
        stop = end if found < 0 else found + len(separator)
        yield start, stop
        start = stop


def _length(text: str, start: int, end: int) -> int:
    low, high = _trimmed(text, start, end)
    return high - low


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


class SectionPaths:
    """The sections of a document by their first character."""

    def __init__(self, text: str, title: str = "") -> None:
        """Split the text at its headings; `title` as in `split_sections`."""
        sections = [each for each in split_sections(text, title) if each.blocks]
        self._starts = [each.blocks[0].start for each in sections]
        self._paths = [each.path for each in sections]

    def at(self, place: int) -> str:
        """The path at a character, "" before the first heading."""
        found = bisect_right(self._starts, place) - 1
        return self._paths[found] if found >= 0 else ""
