"""A piece of evidence as raters read it: its words, without the marks of Markdown."""

from __future__ import annotations

import re

from srrag.lab.review.kit import Row

_FIRST_HEADING = re.compile(r"\A#{1,6}[ \t]+[^\n]*\n")
_HEADING_MARK = re.compile(r"^#{1,6}[ \t]+", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*|__|\*)(?=\S)([^\n*_]+?)(?<=\S)\1(?![\w*])")


def passage(piece: Row) -> str:
    """The text of a row of EVIDENCE; the heading that it begins with is shown as its section."""
    text = _HEADING_MARK.sub("", _FIRST_HEADING.sub("", piece["text"]))
    return _EMPHASIS.sub(r"\2", text).replace("`", "").strip()
