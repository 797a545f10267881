"""How much of one text stands in another, by runs of words (shingles; Broder 1997)."""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_RUN = 5
_WORD = re.compile(r"\w+")
_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_SMALL = 1_000
_BITS = np.uint64(61)


class Shingles(NamedTuple):
    """The distinct runs of five words of a text: their number, and their sorted hashes.

    Of a text with over 1,000 an eighth is kept, chosen by hash (FracMinHash; Irber et al. 2022).
    """

    number: int
    hashes: npt.NDArray[np.uint64]


def shingles(text: str) -> Shingles:
    """Hash the runs of five words, whatever their case and the marks between them."""
    words = [zlib.crc32(word.encode()) for word in _WORD.findall(text.casefold())]
    codes = np.array(words, np.uint64)
    count = max(0, len(words) - _RUN + 1)
    runs = np.zeros(count, np.uint64)
    for offset in range(_RUN):
        runs = runs * _BASE + codes[offset : offset + count]
    hashes = np.unique(runs * _MIX)
    return Shingles(len(hashes), _sample(hashes) if len(hashes) > _SMALL else hashes)


def share_within(text: Shingles, other: Shingles) -> float:
    """Share, 0 to 1, of a text's runs that stand in another; 0 for a text too short to tell."""
    hashes = text.hashes if other.number <= _SMALL else _sample(text.hashes)
    return float(np.isin(hashes, other.hashes).mean()) if len(hashes) else 0.0


def _sample(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    kept: npt.NDArray[np.uint64] = hashes[(hashes >> _BITS) == 0]
    return kept
