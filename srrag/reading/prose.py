"""A text as it is read: its sentences, headings and rows, what is shown of them, whether they tell
of a plan, and what was copied out of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

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


Role = Literal["conclusion", "result", "background", "method", ""]


class Sentence(NamedTuple):
    """A sentence as shown, and the part of a paper that it stands in where that is known."""

    text: str
    role: Role


_ROLES: tuple[tuple[Role, str], ...] = (
    ("method", r"outcomes? measures?|main outcomes?|(?:study|trial) (?:design|selection)"),
    ("conclusion", r"conclusions?|recommendations?|interpretation|summary|key points?"),
    ("conclusion", r"clinical (?:implications?|relevance|messages?|recommendations?)"),
    ("result", r"results?|(?:main |key )?findings?"),
    ("method", r"methods?|methodology|design|setting|participants|patients|interventions?"),
    ("method", r"subjects|materials|measures?|measurements?|data (?:sources?|extraction)"),
    ("background", r"background|introduction|objectives?|aims?|purpose|context|rationale"),
    ("background", r"hypothesis|importance|questions?|scope"),
)
_ROLE = [(role, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for role, words in _ROLES]
_PART = re.compile(r"([A-Z][A-Za-z]+(?:[ /&][A-Za-z]+){0,3})[:.] +(?=\S)")
_BULLET = re.compile(r"(?:[-*+•‣▪]|\d{1,3}[.)])[ \t]+")
_MARK = re.compile(r"#{1,6}(?:[ \t]+|$)")
_RULE = re.compile(r"[-=*_ \t]{3,}$")
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^\n*_]+?)(?<=\S)\1")
_BRACKETED_NUMBER = re.compile(
    r"[\[【［][ \u200b\ufeff]{0,3}\^?(\d(?:[\d ,;–&-]|and){0,40})[\]】］]"
)


def plain(text: str) -> str:
    """Text on one line without emphasis marks, with numbers in brackets turned into (1).

    Answers carry markers like [1]; no text may look as if it carried one.
    """
    text = _BRACKETED_NUMBER.sub(r"(\1)", text)
    if "**" in text or "__" in text:
        text = _BOLD.sub(r"\2", text)
    return " ".join(text.replace("`", "").split())


def section_role(name: str) -> Role:
    """Part of a paper that a heading or label names, "" if none."""
    return next((role for role, pattern in _ROLE if pattern.search(name)), "")


def split_sentences(text: str, section: str = "") -> list[Sentence]:
    """Split a window into sentences; headings, table rows and code marks are left out.

    The role comes from the last heading, else from a label such as "Results:" that opens a
    sentence, else from the last name of the section path. Linear in the number of characters.
    """
    role = section_role(section.rpartition(">")[2])
    sentences: list[Sentence] = []
    for kind, segment in _segments(text):
        if kind == "heading":
            role = section_role(segment) or role
            continue
        for sentence in cut_sentences(plain(segment)):
            label = _PART.match(sentence)
            named = section_role(label[1]) if label else ""
            if label and named:
                role = named
                sentences.append(Sentence(sentence[label.end() :], role))
            else:
                sentences.append(Sentence(sentence, role))
    return sentences


def _segments(text: str) -> list[tuple[str, str]]:
    """Headings, and runs of prose: paragraphs with their lines joined, and list items."""
    segments: list[tuple[str, list[str]]] = []
    closed = True
    for raw in text.split("\n"):
        line = raw.strip()
        heading = _MARK.match(line)
        if heading:
            segments.append(("heading", [line[heading.end() :]]))
        if heading or not line or "|" in line or _RULE.match(line) or line.startswith("```"):
            closed = True
            continue
        line = line.lstrip("> ")
        item = _BULLET.match(line)
        if closed or item:
            segments.append(("prose", []))
            closed = False
        segments[-1][1].append(line[item.end() :] if item else line)
    return [(kind, " ".join(lines)) for kind, lines in segments]


def cut_sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [text[start:end] for start, end in sentence_spans(text)]


_TITLED = re.compile(
    r"\b(?:study|trial|review|research) protocols?\b"
    r"|\bprotocols? (?:for|of) (?:an? |the )?(?:[\w-]+ ){0,8}(?:trial|study|review|meta-analysis)\b"
    r"|[:.–-] (?:an? )?protocol\b|^protocol\s?:"
    r"|\b(?:rationale and (?:study )?design|(?:study )?design and rationale)\b"
    r"|\b(?:study|trial) design\W*$",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\bthis (?:is|paper|article|study|report|manuscript)\b[^.]{0,60}"
    r"\b(?:protocol|design|methodology|methods|rationale)\b[^.]{0,40}\b(?:trial|study|review)\b",
    re.IGNORECASE,
)
_DESIGN = re.compile(r"(?m)^#* *methods?/design\W*$", re.IGNORECASE)
"""The heading of a protocol in journals that print them."""
_PLANNED = re.compile(
    r"[wt](?<!\w[wt])(?:ill|o) be (?:\w+ly )?(?:randomi[sz]ed|recruited|enrol\w+|allocated|assigned"
    r"|assessed|measured|evaluated|compared|conducted|followed|collected|analy[sz]ed|included"
    r"|performed)\b"
    r"|w(?<!\ww)ill (?:\w+ly )?(?:receive|undergo|assess|evaluate|compare|investigate|examine"
    r"|recruit|determine|establish|provide|attend|complete|measure|collect|analy[sz]e)\b"
)
_OWN_PLAN = re.compile(
    r"w(?<!\ww)e (?:will|(?:plan|aim|intend) to) (?:\w+ly )?"
    r"(?:randomi[sz]e|recruit|enroll?|allocate|assign)\b"
    r"|t(?<!\wt)h(?:e|is) (?:(?:present|current|proposed|planned) )?(?:[\w-]+ ){0,3}(?:trial|study)"
    r" will (?:\w+ly )?(?:randomi[sz]e|recruit|enroll?|allocate|assign|include)\b"
)
"""The authors, or their trial, take people yet: a later trial of others has another subject."""
_FIGURES = re.compile(r"p(?<!\wp)\s*[=<>≤≥]\s*0?[.·,]\d|95(?<!\w95)\s*%\s*(?:ci|confidence)|±")
_MEASURED = re.compile(
    rf"{_FIGURES.pattern}"
    r"|s(?<!\ws)ignificantly (?:\w+er|more|less)\b|w(?<!\ww)(?:as|ere) (?:not )?significant"
)
"""Of texts in small letters. A pattern that begins with a letter, and then looks back for the edge
of a word, is looked for eight times as fast as one that begins with an edge or folds letters."""
_PLANS = 3
"""Statements about the future that make a plan of a paper that reports no figure."""


def has_no_results(title: str, text: str) -> bool:
    """Whether a paper is a protocol: no paper that reports a test or an interval is one.

    Of one that its title calls a protocol, "significantly better" is on others' work.
    """
    folded = text.lower()
    if _MEASURED.search(folded):
        return bool(_TITLED.search(title)) and not _FIGURES.search(folded)
    plans = len(_PLANNED.findall(folded))
    return bool(
        plans >= _PLANS
        or _OWN_PLAN.search(folded)
        or (plans and (_SAID.search(text) or _DESIGN.search(text)))
        or _TITLED.search(title)
    )


_TYPED = str.maketrans(
    {
        **dict.fromkeys("\"“”„‟«»″'‘’‚‛`´′", "'"),
        **dict.fromkeys("‐‑‒–—―−⁃", "-"),
        **dict.fromkeys("·∙⋅‧", "."),
        "‹": "<", "›": ">", "≤": "<=", "≥": ">=", "≦": "<=", "≧": ">=", "×": "x", "⁄": "/",
    }
)  # fmt: skip
# A character with the marks that combine with it.
_CLUSTER = re.compile(r".[\u0300-\u036f]*", re.DOTALL)
_CUTS_BEFORE = re.compile(r"(?:\w|\d[.,·])\Z")
_CUTS_AFTER = re.compile(r"\w|[.,·]\d")
_LOOSE_ENDS = " .,;:…"
_UNSPACED = "\u2e80"
"""East Asian writing begins here: it has no blanks, so no place in it cuts a word."""


def find_quote(quote: str, text: str) -> Span | None:
    """Return start and end of a quote, in characters of the text as given; None if it is not there.

    Forms of characters (NFKC), case, dashes, quotation marks, the blanks between words and beside
    signs, and a last stop are forgiven; a quote that cuts a word or a number is not found. The
    exact quote is preferred. Linear in the number of characters.
    """
    if not any(map(str.isalnum, quote)):
        return None
    if (exact := _uncut(quote, text)) is not None:
        return exact
    whole = _folded(quote)[0]
    folded, places = _folded(text)
    for wanted in dict.fromkeys((whole, whole.strip(_LOOSE_ENDS))):
        at = folded.find(wanted)
        while at >= 0:
            span = places[at][0], places[at + len(wanted) - 1][1]
            if not _cuts(text, *span):
                return span
            at = folded.find(wanted, at + 1)
    return None


def _uncut(quote: str, text: str) -> Span | None:
    quote = quote.strip()
    at = text.find(quote)
    while at >= 0:
        if not _cuts(text, at, at + len(quote)):
            return at, at + len(quote)
        at = text.find(quote, at + 1)
    return None


def _cuts(text: str, start: int, end: int) -> bool:
    """Whether a stretch begins or ends within a word or a number."""
    first, last = text[start], text[end - 1]
    if first.isalnum() and first < _UNSPACED and _CUTS_BEFORE.search(text[:start][-2:]):
        return True
    return last.isalnum() and last < _UNSPACED and bool(_CUTS_AFTER.match(text, end))


@lru_cache(maxsize=256)
def _folded(text: str) -> tuple[str, list[Span]]:
    """Return a text as it is compared, and for each of its characters the span that it stands for.

    A blank stays only between two letters or digits.
    """
    letters: list[str] = []
    places: list[Span] = []
    blank: Span | None = None
    for found in _CLUSTER.finditer(text):
        for letter in unicodedata.normalize("NFKC", found[0]).casefold().translate(_TYPED):
            if letter.isspace():
                blank = found.span()
            elif unicodedata.category(letter) not in ("Cf", "Cc"):
                if blank and letters and letters[-1].isalnum() and letter.isalnum():
                    letters.append(" ")
                    places.append(blank)
                blank = None
                letters.append(letter)
                places.append(found.span())
    return "".join(letters), places
