"""Remove text that is not content: page headers and footers, copyright notices, references."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_EDGE_LINES = 2
_MIN_PAGES = 3
_PAGE_SHARE = 0.6
_LAID_OUT_PAGES, _LAID_OUT_SHARE = 2, 0.3
"""Where the layout tells what is no line of the text: heads of left and right pages differ."""
_MIN_REPEATS = 3
_TAIL_CHARS = 300
_LOOK_AHEAD = 5

_DIGITS = re.compile(r"\d+")
_HEADING = re.compile(r"(#{1,6}) +(\S.*)")
_LONE_NUMBER = re.compile(r"(?:[-\u2013\u2014] ?)?\d{1,4}(?: ?[-\u2013\u2014])?")
_PAGE_OF = re.compile(r"(?:page|p\.) ?\d{1,4}(?: ?(?:of|/) ?\d{1,4})?", re.IGNORECASE)
_RUNNING = re.compile(
    r"downloaded from|author manuscript|\bdoi\b|https?://|www\.|\bissn\b|et al\b|\bvol(?:ume|\.)?\b"
    r"|\bjournal\b|\ball rights\b|page \d",
    re.IGNORECASE,
)
_NOTICE = re.compile(
    r"(?:copyright\b ?(?:\u00a9|\(c\)|(?:19|20)\d\d\b)|\u00a9 ?\S|\(c\) ?(?:19|20)\d\d\b"
    r"|all rights reserved\b|downloaded from \S|click here (?:for|to)\b"
    r"|this is an open[- ]access article\b"
    r"|(?:this article is )?(?:published|licen[cs]ed) under (?:a|the) creative commons\b)",
    re.IGNORECASE,
)
_SENTENCE_NOTICE = re.compile(
    r"(?<=[.!?)]) (?:copyright ?(?:\u00a9|\(c\)|(?=(?:19|20)\d\d\b))|\u00a9|\(c\)(?= ?(?:19"
    r"|20)\d\d\b))",
    re.IGNORECASE,
)
_REFERENCES = re.compile(
    r"(?:\d{1,2}\.? )?(?:list of )?(?:references?|bibliography|literature cited|works cited"
    r"|reference list|references and notes)(?: list)?:?",
    re.IGNORECASE,
)
_REFERENCE_ITEM = re.compile(
    r".{0,400}?(?:\b[A-Z][\w'\u2019-]+,? (?:[A-Z]\.?[ -]?){1,3}(?:[,.;:&]|and\b|et al|$)"
    r"|\b(?:19|20)\d\d[a-z]?[;,.:)]|\bdoi\b|https?:)"
    r"|(?:[-*] )?(?:\[\d{1,4}\]|\d{1,4}[.)]) .{0,200}\b(?:19|20)\d\d\b"
)
"""An author with initials, a year as citations close it, or a link."""
_AFTER_REFERENCES = re.compile(
    r"(?:appendix|appendices|supplement\w*|figure legends?|tables?|annex)\b.{0,60}", re.IGNORECASE
)

_LIST_EDGES = (_HEADING, _REFERENCES, _AFTER_REFERENCES)


def drop_page_furniture(text: str) -> str:
    """Drop lines that recur at the edges of pages; form feeds separate the pages.

    A line is page furniture if it is among the outer two lines of at least 60 % of three or more
    pages. Digits are masked, so that lines with different page numbers count as equal.
    """
    if "\f" not in text:
        return text
    pages = [page.split("\n") for page in text.split("\f") if page.strip()]
    kept: list[str] = []
    for page, furniture in zip(pages, page_furniture(pages), strict=True):
        kept += [line for i, line in enumerate(page) if i not in furniture]
    return "\n".join(kept)


def page_furniture(
    pages: Sequence[Sequence[str]], outer: Sequence[Iterable[int]] | None = None
) -> list[set[int]]:
    """The numbers of the lines of each page that are page furniture (see `drop_page_furniture`).

    `outer` tells which lines are at the edges of each page; else the first and last ones are.
    """
    need = max(_MIN_PAGES, _PAGE_SHARE * len(pages))
    if outer is None:
        outer = [_outer(page) for page in pages]
    else:
        need = max(_LAID_OUT_PAGES, _LAID_OUT_SHARE * len(pages))
    edges = [
        {i: _masked(page[i]) for i in numbers} for page, numbers in zip(pages, outer, strict=True)
    ]
    counts = Counter(key for keys in edges for key in set(keys.values()))
    found = []
    for page, keys in zip(pages, edges, strict=True):
        furniture = {i for i, key in keys.items() if counts[key] >= need}
        if len(pages) >= _MIN_PAGES:
            furniture |= {i for i in keys if _LONE_NUMBER.fullmatch(page[i].strip())}
        found.append(furniture)
    return found


def drop_notices(lines: Sequence[str]) -> list[str]:
    """Drop copyright, download and page-number lines, and copyright notices at line ends."""
    kept = []
    for line in lines:
        bare = line.strip().lstrip("*_ ")
        if not bare:
            kept.append(line)
            continue
        if (_NOTICE.match(bare) and len(bare) <= 2 * _TAIL_CHARS) or _PAGE_OF.fullmatch(bare):
            continue
        notice = _SENTENCE_NOTICE.search(line, max(0, len(line) - _TAIL_CHARS))
        kept.append(line[: notice.start()] if notice else line)
    return kept


def drop_running_lines(lines: Sequence[str]) -> list[str]:
    """Drop lines that occur three times or more and name a journal, address or page.

    This serves converted documents without page breaks. Other recurring lines (a guideline repeats
    "Strong recommendation, moderate evidence") are content.
    """
    counts = Counter(_masked(line) for line in lines if _is_running(line))
    return [
        line for line in lines if not (_is_running(line) and counts[_masked(line)] >= _MIN_REPEATS)
    ]


def drop_references(lines: Sequence[str]) -> list[str]:
    """Drop reference lists: from a heading of that name to the next heading of its level.

    It opens a list only if the following lines look like one, since a column of a table may have
    that name. The list below a bare line "References" ends at an appendix too.
    """
    kept: list[str] = []
    level = 0  # heading level of the list being dropped, 0 for none
    for index, line in enumerate(lines):
        bare = line.strip()
        if not bare:
            if not level:
                kept.append(line)
            continue
        heading = _HEADING.fullmatch(bare)
        if level and _closes(bare, heading, level):
            level = 0
        if not level:
            level = _opens(lines, index, heading)
        if not level:
            kept.append(line)
    return kept


def _opens(lines: Sequence[str], index: int, heading: re.Match[str] | None) -> int:
    said = heading[2].strip("*_ #") if heading else lines[index].strip().strip("*_ ")
    if not _REFERENCES.fullmatch(said):
        return 0
    ahead: list[str] = []
    for line in lines[index + 1 : index + 1 + 4 * _LOOK_AHEAD]:
        bare = line.strip()
        if len(ahead) == _LOOK_AHEAD or any(edge.fullmatch(bare) for edge in _LIST_EDGES):
            break
        if bare:
            ahead.append(bare)
    hits = sum(1 for line in ahead if _REFERENCE_ITEM.match(line))
    if heading:
        return len(heading[1]) if 2 * hits >= len(ahead) else 0
    return 6 if 2 * hits > len(ahead) else 0


def _closes(bare: str, heading: re.Match[str] | None, level: int) -> bool:
    if heading:
        return len(heading[1]) <= level
    return bool(_AFTER_REFERENCES.fullmatch(bare))


def _outer(page: Sequence[str]) -> set[int]:
    filled = [i for i, line in enumerate(page) if line.strip()]
    return {*filled[:_EDGE_LINES], *filled[-_EDGE_LINES:]}


def _masked(line: str) -> str:
    return _DIGITS.sub("#", line.strip())


def _is_running(line: str) -> bool:
    bare = line.strip()
    if not 10 <= len(bare) <= 150 or bare[0] in "#|-*>[":
        return False
    return bool(_RUNNING.search(bare))
