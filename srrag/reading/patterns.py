"""Regular expressions whose every search is linear in the text."""

from __future__ import annotations

import re

_BOUNDS = {
    r"\s*": r"\s{0,3}",
    r"\s+": r"\s{1,3}",
    r"[\s-]*": r"[\s-]{0,3}",
    r"[\s-]+": r"[\s-]{1,3}",
    r"[a-z-]+": r"[a-z-]{1,30}",
    r"[a-z0-9-]+": r"[a-z0-9-]{1,30}",
    r"[\d,]*": r"[\d,]{0,11}",
    r"[\d.,]*": r"[\d.,]{0,11}",
    r"\d+": r"\d{1,9}",
    r"\w+": r"\w{1,30}",
    r"\w*": r"\w{0,30}",
}


def bounded(source: str) -> re.Pattern[str]:
    """Compile a pattern with an upper bound on every open-ended repetition.

    Two adjacent open repetitions make a failing search quadratic in a run of blanks or digits.
    Raises ValueError if a repetition has no bound.
    """
    for wide, narrow in _BOUNDS.items():
        source = source.replace(wide, narrow)
    if left := re.search(r"(?<!\\)[\w\])][*+]", source):
        raise ValueError(f"unbounded repetition {left.group()!r} in {source!r}")
    return re.compile(source)
