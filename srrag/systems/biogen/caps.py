"""A paragraph with citations by number, read and held to the caps of TREC BioGen (section 6.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from srrag.core.schema import sentence_row
from srrag.reading.prose import cut_sentences, plain

MAX_WORDS = 250
MAX_CITATIONS = 3

_MAX_COUNT = 2**31 - 1
_MAX_DIGITS = 9
_RANGE = r"\d+(?:\s*[-–—]\s*\d+)?"
_MARKER = re.compile(rf"\[\s*{_RANGE}(?:\s*[,;]\s*{_RANGE})*\s*\]")
_AFTER_STOP = re.compile(rf"([.!?]{{1,3}}[\"'”’)]{{0,3}})((?:\s*{_MARKER.pattern})+)")
_EMPTY = re.compile(r"\[[\s,;–-]*\]|\(\s*\)")
_LOOSE = re.compile(r" ([.,;:!?])")


class Capped(NamedTuple):
    """The sentences that stand, as rows of SENTENCES, and counts of what was left out."""

    sentences: list[dict[str, Any]]
    invalid: int
    """Numbers cited that name no evidence; a range that runs backwards counts as one."""
    dropped: int
    """Sentences without a citation, and those behind the cap on words."""


def capped(
    paragraph: str,
    evidence_ids: Sequence[str],
    articles: Sequence[str],
    *,
    words: int = MAX_WORDS,
    citations: int = MAX_CITATIONS,
) -> Capped:
    """Read a paragraph whose markers, such as [1], [1, 3] and [2-4], number the evidence from 1.

    Numbers without evidence are dropped and counted. Of the pieces that belong to one article (in
    `articles`, parallel to the evidence) a sentence cites the first, and of all the first
    `citations`. A sentence without a citation is dropped; so are the last ones, until the text has
    at most `words` words, markers apart.
    """
    sentences: list[dict[str, Any]] = []
    invalid = dropped = length = 0
    full = False
    for sentence in _sentences(paragraph):
        numbers, wrong = read_numbers(sentence, len(evidence_ids))
        invalid += wrong
        by_article = {articles[n - 1]: n for n in reversed(numbers)}
        cited = [n for n in numbers if by_article[articles[n - 1]] == n][:citations]
        text = without_markers(sentence)
        length += len(text.split()) if cited and text else 0
        full |= length > words
        if not cited or not text or full:
            dropped += 1
            continue
        sentences.append(sentence_row(text, [evidence_ids[n - 1] for n in cited]))
    return Capped(sentences, min(invalid, _MAX_COUNT), dropped)


def read_numbers(text: str, count: int) -> tuple[list[int], int]:
    """The numbers from 1 to `count` that markers name, each once, and how many they name beside.

    A range is never written out beyond `count`.
    """
    found: dict[int, None] = {}
    outside = 0
    for marker in _MARKER.findall(text):
        for part in re.split(r"[,;]", marker.strip("[] ")):
            ends = [int(each) if len(each) <= _MAX_DIGITS else -1 for each in _digits(part)]
            first, last = ends[0], ends[-1]
            if first < 0 or last < first:
                outside += 1
                continue
            inside = range(max(first, 1), min(last, count) + 1)
            outside += last - first + 1 - len(inside)
            found |= dict.fromkeys(inside)
    return list(found), outside


def without_markers(text: str) -> str:
    """The text of a sentence as it is shown: no marker in it, nor what would read as one."""
    bare = " ".join(_EMPTY.sub("", _MARKER.sub("", text)).split())
    return plain(_LOOSE.sub(r"\1", bare)).strip()


def _digits(part: str) -> list[str]:
    return re.findall(r"\d+", part)


def _sentences(paragraph: str) -> list[str]:
    """Sentences, of which a line may hold several and none goes over two lines.

    Markers behind a full stop belong to the sentence before it.
    """
    lines = (" ".join(line.split()) for line in paragraph.splitlines())
    return [each for line in lines for each in cut_sentences(_AFTER_STOP.sub(r"\2\1 ", line))]
