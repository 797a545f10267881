"""Detects where an answer begins to repeat itself, while the model writes it.

A small model under guided decoding may write the same JSON object until its limit. Repeats of a few
tokens are what engines find by themselves; these are whole items.
"""

from __future__ import annotations

MIN_REPEATED_CHARS = 400
"""Minimum length of a repeated stretch, so that no short list counts as a loop."""

MIN_COPIES = 3
"""Minimum number of copies in the stretch."""

MAX_TAIL_CHARS = 6000
"""How far back a repeat is sought: three copies of an item of 2,000 characters."""

_EVERY_CHARS = 200


def repeated(text: str) -> int | None:
    """Return the start of the second copy of the stretch that the text's end repeats, or None.

    The end is a loop if its last n ≥ `MIN_REPEATED_CHARS` characters have a period of at most n /
    `MIN_COPIES`. The period is that of the failure function (Knuth, Morris, Pratt 1977) of the
    reversed end, so the cost is linear in `MAX_TAIL_CHARS`.
    """
    tail = text[-MAX_TAIL_CHARS:][::-1]
    size = len(tail)
    if size < MIN_REPEATED_CHARS:
        return None
    border = [0] * size
    length = best = period = 0
    for n in range(1, size):
        while length and tail[n] != tail[length]:
            length = border[length - 1]
        if tail[n] == tail[length]:
            length += 1
        border[n] = length
        if n + 1 >= MIN_REPEATED_CHARS and MIN_COPIES * (n + 1 - length) <= n + 1:
            best, period = n + 1, n + 1 - length
    return len(text) - best + period if best else None


def ended(text: str, finish: str) -> tuple[str, str]:
    """Return an answer's text and finish reason, with all but the first copy of a loop cut off.

    An answer that reached its limit ("length") within a loop is "looped" too.
    """
    start = repeated(text) if finish in ("length", "looped") else None
    return (text, finish) if start is None else (text[:start], "looped")


class LoopWatch:
    """Takes the pieces of an answer, and tells when it begins to loop."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._tail = ""
        self._unseen = 0

    def loops(self, piece: str) -> bool:
        """Whether the answer, with this piece, repeats its end."""
        self._tail = (self._tail + piece)[-MAX_TAIL_CHARS:]
        self._unseen += len(piece)
        if self._unseen < _EVERY_CHARS:
            return False
        self._unseen = 0
        end = self._tail[-_EVERY_CHARS:]
        seen_before = self._tail.find(end) < len(self._tail) - len(end)
        return seen_before and repeated(self._tail) is not None
