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
