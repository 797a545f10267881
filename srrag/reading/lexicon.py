"""The words by which English is read, from `lexicon.tsv`: pattern, class, where it came from."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files


@cache
def lexicon(*classes: str) -> re.Pattern[str]:
    """Return a pattern of the whole words of these classes; a match's `lastgroup` is its class."""
    return re.compile(
        "|".join(rf"(?P<{name}>(?<![\w-])(?:{alternatives(name)})(?![\w-]))" for name in classes),
        re.IGNORECASE,
    )


def alternatives(*classes: str) -> str:
    """Return the patterns of these classes as one alternation, to stand within another pattern."""
    return "|".join(row["pattern"] for row in _rows() if row["class"] in classes)


def words(name: str) -> frozenset[str]:
    """Return the words of a class whose patterns are plain words."""
    return frozenset(alternatives(name).split("|"))


@cache
def _rows() -> list[dict[str, str]]:
    told = files("srrag.reading").joinpath("lexicon.tsv").read_text("utf-8").splitlines()
    return [*csv.DictReader(told, delimiter="\t", quoting=csv.QUOTE_NONE)]


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
