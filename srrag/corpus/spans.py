"""Cut texts into overlapping windows of bounded token length (SR-RAG, Table S3)."""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

Tokenize = Callable[[Sequence[str]], Sequence[Ints]]
"""Returns the character offsets of each text's tokens, (num_tokens, 2), without special tokens."""

_SPACE = np.array([point for point in range(0x3001) if chr(point).isspace()], np.uint32)
_SENTENCE_END = np.array([ord(mark) for mark in ".!?。！？"], np.uint32)
_NEWLINE = ord("\n")
_NO_END = re.compile(r"\b(?:vs|e\.g|i\.e|cf|approx|et al)\.(?=\s)")
"""Behind these a sentence goes on: "2.0 weeks vs. 4.7 weeks" is worth nothing in halves."""


def cut_all(
    texts: Sequence[str], tokenize: Tokenize, size: int, overlap: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Cut texts into windows: row, start, end and exact number of tokens of each, in order.

    A piece of a text can have other tokens than in the whole (a word cut in two, a tokenizer that
    looks around). So each piece is tokenized alone, and cut again if it is too long.
    """
    pieces = [(row, *_trimmed(text, 0, len(text))) for row, text in enumerate(texts)]
    done: list[tuple[int, int, int, int]] = []
    while pieces:
        parts = [texts[row][start:end] for row, start, end in pieces]
        longer: list[tuple[int, int, int]] = []
        for (row, start, end), part, offsets in zip(pieces, parts, tokenize(parts), strict=True):
            if len(offsets) <= size or len(part) == 1:
                if part:
                    done.append((row, start, end, len(offsets)))
                continue
            for low, high in cut_spans(part, offsets, size, overlap):
                longer.append((row, start + low, start + high))
        pieces = longer
    table = np.array(sorted(set(done)), np.int64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def cut_spans(text: str, offsets: Ints, size: int, overlap: int) -> list[tuple[int, int]]:
    """Cut a text into character spans of at most `size` tokens that overlap by `overlap` or more.

    A window ends at the last sentence border in its second half, else at the last word border
    there, else at its `size`-th token. The next begins `overlap` tokens before that end, or up to
    `overlap` more before it, at a sentence border, else at a word border. Text that the tokenizer
    drops between two tokens goes with the first of them. Every window is shorter than the text.
    """
    starts = offsets[:, 0]
    words, sentences = _borders(text, starts)
    num_tokens = len(starts)
    edges = np.append(starts, len(text))
    edges[0] = 0
    spans: list[tuple[int, int]] = []
    first = 0
    while True:
        last = first + size
        if last >= num_tokens:
            spans.append(_trimmed(text, int(edges[first]), len(text)))
            break
        last = _border(sentences, words, first + size // 2 + 1, last)
        spans.append(_trimmed(text, int(edges[first]), int(edges[last])))
        first = _border(sentences, words, max(first + 1, last - 2 * overlap), last - overlap)
    spans = [(low, high) for low, high in dict.fromkeys(spans) if low < high]
    if (0, len(text)) in spans:
        # A tokenizer that makes many tokens of one character can yield the whole text again.
        middle = len(text) // 2
        spans = [_trimmed(text, 0, middle), _trimmed(text, middle, len(text))]
    return spans


def _border(sentences: Ints, words: Ints, low: int, high: int) -> int:
    """Return the last sentence border in [low, high], else the last word border, else `high`."""
    for borders in (sentences, words):
        at = int(np.searchsorted(borders, high, side="right")) - 1
        if at >= 0 and borders[at] >= low:
            return int(borders[at])
    return high


def _borders(text: str, starts: Ints) -> tuple[Ints, Ints]:
    """Return the tokens (by number) that begin a word, and those that begin a sentence or line."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    blank = np.isin(points, _SPACE)
    position = np.arange(len(points))
    last_word = np.maximum.accumulate(np.where(blank, -1, position))
    last_line = np.maximum.accumulate(np.where(points == _NEWLINE, position, -1))
    before = np.maximum(starts - 1, 0)
    word = (starts > 0) & blank[before]
    stops = np.isin(points, _SENTENCE_END)
    stops[[found.end() - 1 for found in _NO_END.finditer(text)]] = False
    closed = stops[np.maximum(last_word[before], 0)]
    new_line = last_line[before] > last_word[before]
    return np.flatnonzero(word), np.flatnonzero(word & (closed | new_line))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, max(start, start + len(part.strip()))
