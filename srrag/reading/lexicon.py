"""The words by which English is read, from `lexicon.tsv`: pattern, class, where it came from."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files


@cache
def lexicon(*classes: str) -> re.Pattern[str]:
    """Return a pattern of the whole words of these classes; a match's `lastgroup` is its class."""
    words = {
        name: "|".join(row["pattern"] for row in _rows() if row["class"] == name)
        for name in classes
    }
    return re.compile(
        "|".join(rf"(?P<{name}>(?<![\w-])(?:{each})(?![\w-]))" for name, each in words.items()),
        re.IGNORECASE,
    )


@cache
def _rows() -> list[dict[str, str]]:
    told = files("srrag.reading").joinpath("lexicon.tsv").read_text("utf-8").splitlines()
    return [*csv.DictReader(told, delimiter="\t", quoting=csv.QUOTE_NONE)]
