"""Evidence windows: spans of a chunk that fit into the embedder (SR-RAG, Table S3)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from srrag.core.schema import UNITS
from srrag.core.spec import content_id
from srrag.core.step import Function, Place, Step
from srrag.model.encoder import Encoder, load_tokenizer

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


@dataclass(frozen=True, kw_only=True)
class CutWindows(Step):
    """Cut chunks into windows of at most `size_tokens` of the encoder's tokenizer.

    Table S3: windows of 320 tokens that overlap by 64. A chunk that fits is one window. `order` is
    the window's first character, which rises within a document and depends only on the row.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = tuple(name for name in UNITS.names if name != "reject")
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    encoder: Encoder
    size_tokens: int = 320
    overlap_tokens: int = 64

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible size or overlap."""
        if self.size_tokens < 16:
            raise ValueError(f"size_tokens is {self.size_tokens}: windows need 16 tokens at least")
        if not 0 <= 2 * self.overlap_tokens < self.size_tokens:
            raise ValueError(f"overlap_tokens is {self.overlap_tokens}: less than half a window")

    def open(self, at: Place) -> Function:
        """Load the tokenizer."""
        tokenize = load_tokenizer(self.encoder).spans

        def run(batch: pa.Table) -> pa.Table:
            chunks = batch.select(UNITS.names)
            chunks = chunks.filter(pc.is_null(chunks.column("reject")))
            texts = chunks.column("text").to_pylist()
            rows, starts, ends, counts = cut_all(
                texts, tokenize, self.size_tokens, self.overlap_tokens
            )
            return _units(chunks, rows, starts, ends, counts)

        return run


def _units(chunks: pa.Table, rows: Ints, starts: Ints, ends: Ints, counts: Ints) -> pa.Table:
    """Build UNITS rows for windows: their spans in the document; other columns from the chunk."""
    taken = chunks.take(pa.array(rows))
    texts = taken.column("text").to_pylist()
    doc_ids = taken.column("doc_id").to_pylist()
    origin = taken.column("char_start").to_numpy()
    first, last = origin + starts, origin + ends
    spans = zip(first.tolist(), last.tolist(), strict=True)
    columns: dict[str, Any] = {name: taken.column(name) for name in UNITS.names}
    columns |= {
        "unit_id": [
            content_id(doc_id, "window", str(low), str(high))
            for doc_id, (low, high) in zip(doc_ids, spans, strict=True)
        ],
        "view": ["window"] * len(rows),
        "parent_id": taken.column("unit_id"),
        "order": first.astype(np.int32),
        "char_start": first.astype(np.int32),
        "char_end": last.astype(np.int32),
        "text": [
            text[low:high]
            for text, low, high in zip(texts, starts.tolist(), ends.tolist(), strict=True)
        ],
        "num_tokens": counts.astype(np.int32),
        "repairs": np.zeros(len(rows), np.int32),
    }
    return pa.table(columns, schema=UNITS)
