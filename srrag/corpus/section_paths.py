"""The heading path in force at a character of a document."""

from __future__ import annotations

from bisect import bisect_right

from srrag.corpus.blocks import split_sections


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
