"""The numbered sentences of a document, and the blocks of them that fit a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from srrag.reading.prose import Span, sentence_spans


def ground(quote: str, text: str) -> tuple[int, int] | None:
    """Return the offsets [start, end) of the quote in the text, or None.

    An exact match at word borders wins over one that cuts a word. Failing both, the same words in
    the same order match, whatever their case and the blanks between them.
    """
    words = quote.split()
    if not words:
        return None
    cut = text.find(quote)
    at = cut
    while at >= 0:
        end = at + len(quote)
        if not (_inside_word(text, at) or _inside_word(text, end)):
            return at, end
        at = text.find(quote, at + 1)
    if cut >= 0:
        return cut, cut + len(quote)
    match = re.search(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE)
    return match.span() if match else None


def _inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


CHARS_PER_TOKEN = 4.0
"""Characters of English a token of a language model, in the mean."""

_CUTS = ("\n", ";\uff1b", ",\uff0c\u3001", " ")
"""Where a text without full stops is best cut, with the marks of Chinese."""

Names = Sequence[Sequence[str]]


class Stretch(NamedTuple):
    """A stretch of a document's text, and its words: those of the title have an empty span."""

    start: int
    end: int
    quote: str


@dataclass(frozen=True)
class NumberedBlock:
    """Neighbouring sentences of a text with their numbers; headings stand among them without one.

    `spans` holds the span of each number, `lines` what is shown, and [start, end) is the stretch of
    the text. Number 0 is the title.
    """

    text: str
    title: str
    lines: tuple[str, ...]
    spans: dict[int, Span]

    @property
    def start(self) -> int:
        """The first character of the first sentence."""
        return min(low for low, _ in self.spans.values())

    @property
    def end(self) -> int:
        """Behind the last character of the last sentence."""
        return max(high for _, high in self.spans.values())

    def known(self, numbers: Sequence[int]) -> list[int]:
        """Those of the numbers that name a sentence of this block, or the title."""
        return [n for n in numbers if n in self.spans or (n == 0 and self.title)]

    def places(self, numbers: Sequence[int], names: Names) -> list[Stretch]:
        """In each sentence, the stretch from the first to the last thing that it names.

        Each thing has several names, of which the first found counts. A sentence that names none is
        the place as a whole.
        """
        return [self._narrow(number, names)[1] for number in self.known(numbers)]

    def place(self, numbers: Sequence[int], names: Names) -> Stretch | None:
        """The place in the sentence that names most, the first of equals; None without any."""
        found = [self._narrow(number, names) for number in self.known(numbers)]
        return max(found, key=lambda each: each[0])[1] if found else None

    def _narrow(self, number: int, names: Names) -> tuple[int, Stretch]:
        low, high = self.spans.get(number, (self.start, self.start))
        sentence = self.text[low:high] if number else self.title
        found = [
            next((span for name in thing if (span := ground(name, sentence))), None)
            for thing in names
        ]
        spans = [span for span in found if span]
        first = min((start for start, _ in spans), default=0)
        last = max((end for _, end in spans), default=len(sentence))
        quote = sentence[first:last]
        if not number:
            return len(spans), Stretch(low, low, quote)
        return len(spans), Stretch(low + first, low + last, quote)


def blocks(text: str, title: str, size_tokens: int) -> Iterator[NumberedBlock]:
    """Cut a text into blocks of whole sentences, of about `size_tokens` each.

    A blank text has none. Numbers count on from block to block. A block ends at the last heading or
    paragraph of its second half, if there is one. A sentence that fits no block, such as a text
    without full stops, counts as several. Linear in the number of characters.
    """
    most = int(size_tokens * CHARS_PER_TOKEN)
    title = " ".join(title.split())
    spans = [piece for span in sentence_spans(text) for piece in _pieces(text, span, most)]
    number = start = 0
    while start < len(spans):
        end = _end(text, spans, start, most)
        lines = [f"[0] {title}"] if title and not start else []
        numbered: dict[int, Span] = {}
        for low, high in spans[start:end]:
            shown = " ".join(text[low:high].split())
            if shown.startswith("#"):
                lines.append(shown)
            else:
                number += 1
                numbered[number] = (low, high)
                lines.append(f"[{number}] {shown}")
        if numbered:
            yield NumberedBlock(text, title, tuple(lines), numbered)
        start = end


def _pieces(text: str, span: Span, most: int) -> Iterator[Span]:
    """A sentence; one longer than `most` characters in eighths of that, best cut at a line."""
    low, high = span
    size = most // 8 if high - low > most else most
    while high - low > size:
        found = (max(text.rfind(m, low + size // 2, low + size) for m in marks) for marks in _CUTS)
        cut = next((place for place in found if place >= 0), low + size - 1) + 1
        yield low, low + len(text[low:cut].rstrip())
        low = cut
        while low < high and text[low].isspace():
            low += 1
    if low < high:
        yield low, high


def _end(text: str, spans: Sequence[Span], start: int, most: int) -> int:
    """The first span after a block: as many as fit, at least one."""
    first = spans[start][0]
    end = start + 1
    good = 0
    while end < len(spans) and spans[end][1] - first <= most:
        if spans[end][0] - first > most // 2 and "\n" in text[spans[end - 1][1] : spans[end][0]]:
            good = end
        end += 1
    return end if end == len(spans) else good or end
