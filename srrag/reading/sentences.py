"""Where the sentences, headings and table rows of a text stand in it."""

import re
from collections.abc import Iterator

from srrag.algo.terms import STOPWORDS

Span = tuple[int, int]

_LINE = re.compile(r"[^\n\r\u2028\u2029]+")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)|(\*\*|__)[^*_]{1,120}\1:?$")
_ITEM = re.compile(r"(?:[-*+•‣▪]|\(?\d{1,3}[.)])[ \t]+(?=\S)")
# A stop, what closes the sentence behind it, and the blank before the next one; or a stop with the
# number of a reference raised behind it; or a full stop of East Asian writing, which has no blank.
_STOP = re.compile(
    r"[.!?](?:[\"'”’)\]]|\[\d[\d,; –-]{0,30}\]){0,8}\s+"
    r"|(?<=[a-z)])\.\d{1,3}(?:[,–-]\d{1,3}){0,8}\s+(?=[A-Z])"
    r"|[。！？][”’」』）]?\s*"
)
_OPENS = frozenset("\"'“‘«([{<>≥≤*_#¿¡")
_ABBREVIATION = re.compile(
    r"(?:\b(?:(?i:et al|vs|v|figs?|tabs?|eqs?|refs?|nos?|vol|pp?|cf|ca|approx|resp|incl|suppl"
    r"|sec|ch|eds?|spp?|subsp|ssp|var|max|min)|Drs?|Prof|Mrs?|Ms|St|Inc|Ltd|Co)"
    r"|(?:\b[A-Za-z]\.\s?)+[A-Za-z])$"
)
_NUMBERED = re.compile(
    r"\b(?:nos?|pp?|eds?|ca|ch|sec|refs?|tabs?|figs?|eqs?|vol|resp|incl|suppl|max|min|v|co)$", re.I
)
"""Abbreviations only before a number: "There was no." and "at its max." end a sentence."""
_INITIAL = re.compile(r"(?:(?:^|[\s(.])([^\W\d_]\w*)[ \t]+)?(?<![^\s(])[A-Z]$")
_LABEL = re.compile(
    r"(?:(?:materials?|patients|subjects|participants|study|main|primary|trial|data|key)\s+(?:and|&)?"
    r"\s*)?(?:background|introduction|objectives?|aims?|purpose|hypothes[ie]s|context|importance|"
    r"designs?|settings?|methods?|methodology|participants|patients|subjects|interventions?|"
    r"(?:outcomes? )?measure(?:s|ments)?|outcomes?|results?|findings?|conclusions?|discussion|"
    r"interpretation|limitations?|significance|funding|registration)[.:]",
    re.IGNORECASE,
)
"""The name of a section before its text: a sentence with it, not one of its own."""
_WORD = re.compile(r"[^\W\d_]+")
_LETTER = re.compile(r"[^\W\d_]")
_TOLD = re.compile(r"\w")
_BEFORE_CHARS = 40


def sentence_spans(text: str) -> list[Span]:
    """Return start and end of each sentence, heading and table row of a text, in order.

    The spans are characters of the text as given, hold no blanks at their ends, and together every
    character that is not blank: a line of signs alone belongs to the span before it. Paragraphs end
    at empty lines, headings, table rows and list items; their lines are read as one. Linear in the
    number of characters.
    """
    spans: list[Span] = []
    for low, high in _pieces(text):
        told = _TOLD.search(text, low, high) is not None
        if spans and not (told and _TOLD.search(text, *spans[-1])):
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans


def _pieces(text: str) -> Iterator[Span]:
    """Yield the spans before lines of signs are joined to them."""
    run: list[Span] = []
    before = 0
    for found in _LINE.finditer(text):
        low, high = _trimmed(text, *found.span())
        line = text[low:high]
        gap = text.count("\n", before, found.start()) > 1
        before = found.end()
        alone = bool(_HEADING.match(line)) or _is_row(line)
        if run and (not line or gap or alone or _ITEM.match(line)):
            yield from _cut(text, run[0][0], run[-1][1])
            run = []
        if alone:
            yield low, high
        elif line:
            run.append((low, high))
    if run:
        yield from _cut(text, run[0][0], run[-1][1])


def _is_row(line: str) -> bool:
    return "|" in line and (line[0] == "|" or line.count("|") > 1)


def _cut(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the sentences between two places of a text that holds no heading there."""
    looked = start
    for stop in _STOP.finditer(text, start, end):
        # "1. Aim" and "(2) ..." count something: a sentence has a letter before its stop.
        if not _LETTER.search(text, looked, stop.start()):
            looked = stop.start()
            continue
        looked = start
        if stop.end() < end and _ends(text, start, stop) and not _is_label(text, start, stop):
            yield _trimmed(text, start, stop.end())
            start = looked = stop.end()
    low, high = _trimmed(text, start, end)
    if low < high:
        yield low, high


def _is_label(text: str, start: int, stop: re.Match[str]) -> bool:
    low, high = _trimmed(text, start, min(stop.end(), start + _BEFORE_CHARS))
    return _LABEL.fullmatch(text, low, high) is not None


def _ends(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a stop with something behind it ends a sentence."""
    mark, after = text[stop.start()], text[stop.end()]
    if mark in "。！？":
        return True
    if not (after.isupper() or after.istitle() or after.isdigit() or after in _OPENS):
        return False
    if mark != "." or stop[0].rstrip() != ".":
        return True
    before = text[max(start, stop.start() - _BEFORE_CHARS) : stop.start()]
    if after.isdigit() and re.search(r"(?<![\d.])0$", before):  # "P = 0. 05", badly set
        return False
    if _ABBREVIATION.search(before):
        return bool(_NUMBERED.search(before)) and not after.isdigit()
    return not _is_initial(before, text[stop.end() : stop.end() + _BEFORE_CHARS])


def _is_initial(before: str, after: str) -> bool:
    """Whether a single capital is of a name ("by J. Cyriax"), not a label ("in group A. The")."""
    found = _INITIAL.search(before)
    word = _WORD.match(after)
    if not found or not word or word[0].lower() in STOPWORDS:
        return False
    return not (found[1] and found[1].islower() and len(found[1]) > 4)


def _trimmed(text: str, low: int, high: int) -> Span:
    piece = text[low:high]
    return low + len(piece) - len(piece.lstrip()), low + len(piece.rstrip())
