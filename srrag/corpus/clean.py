"""Text cleaning: pure functions from string to string (SR-RAG, section 4.1).

`unescape` decodes mark-up, and only once: a text may hold entities after the first pass ("&quot;",
written "&amp;quot;"). The `tidy_*` functions that follow are idempotent and never change a digit.
"""

from __future__ import annotations

import re
import unicodedata

from srrag.corpus.boilerplate import (
    drop_notices,
    drop_page_furniture,
    drop_references,
    drop_running_lines,
)
from srrag.corpus.characters import decode_entities, normalize_characters, strip_tags
from srrag.corpus.measures import format_measures

_INNER_BLANKS = re.compile(r"(?<=\S)[ \t]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def unescape(text: str) -> str:
    """Remove white-listed tags, then decode entities once, so "&lt;b&gt;" stays readable text."""
    return decode_entities(strip_tags(text))


def tidy_inline(text: str) -> str:
    """Normalise characters and collapse all whitespace to single blanks. Idempotent."""
    return " ".join(normalize_characters(text).split())


def tidy_document(text: str) -> str:
    """Clean a document and keep its lines, headings, lists and tables. Idempotent.

    Drops headers, footers, notices and reference lists, and gives numbers and units one form.
    """
    lines = drop_page_furniture(normalize_characters(text)).split("\n")
    lines = [format_measures(_one_blank(line)) for line in lines]
    lines = drop_references(drop_running_lines(drop_notices(lines)))
    joined = "\n".join(line.rstrip() for line in lines)
    return unicodedata.normalize("NFC", _BLANK_LINES.sub("\n\n", joined).strip())


def _one_blank(line: str) -> str:
    """Collapse blanks within a line; leading blanks mark the nesting of lists and stay."""
    content = line.lstrip(" \t")
    lead = line[: len(line) - len(content)]
    return lead.replace("\t", "    ") + _INNER_BLANKS.sub(" ", content).rstrip()
