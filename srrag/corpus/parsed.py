"""The output of a parser for one document."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from srrag.core.errors import SrragError

Metadata = dict[str, str | int | list[str]]

_WORD = re.compile(r"[^\W_]+")
_LEAST_KEPT = 0.1
_YEAR = re.compile(r"(?<!\d)(1[89]\d\d|20\d\d)(?!\d)")
_MAX_VALUE_CHARS = 2_000
_MAX_ITEMS = 500
_SPLIT = re.compile(r"\s*[;|]\s*")
_LISTS = {
    "mesh": "mesh",
    "mesh_terms": "mesh",
    "publication_type": "publication_types",
    "publication_types": "publication_types",
    "keywords": "keywords",
}
_NAMES = {
    "evidence_grade": "grade",
    "licence": "license",
    "condition_code": "condition",
}


class Unparsable(SrragError):
    """A document that cannot be read, with a reason in one word and a detail in one line."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Parsed:
    """Text in Markdown shape, not yet tidied, with its title and metadata.

    `text` leaves out the title. Metadata values are strings, integers and lists of strings;
    `words_left_out` is what the source holds beside the text.
    """

    title: str
    text: str
    metadata: Metadata = field(default_factory=dict)


def plain_metadata(record: Mapping[object, object]) -> Metadata:
    """Reduce untrusted key-value pairs to plain metadata under the names used here.

    Keeps scalars and lists of scalars, with caps on their size; drops all else.
    """
    plain: Metadata = {}
    for key, value in list(record.items())[:_MAX_ITEMS]:
        name = str(key).strip().lower().replace(" ", "_").replace("-", "_")[:100]
        if name in _LISTS:
            if items := _items(value):
                plain[_LISTS[name]] = items
        elif name == "year":
            if year := year_of(value):
                plain["year"] = year
        elif isinstance(value, list):
            plain[name] = _items(value)
        elif (text := _scalar(value)) is not None:
            plain[_NAMES.get(name, name)] = text
    return plain


def count_words(text: str) -> int:
    """The number of words and numbers in a text; marks of tables and headings are none."""
    return sum(1 for _ in _WORD.finditer(text))


def check_kept(parsed: Parsed) -> None:
    """Raise Unparsable("mostly_left_out") where less than a tenth of the source is in the text."""
    kept = count_words(f"{parsed.title} {parsed.text}")
    left_out = parsed.metadata.get("words_left_out", 0)
    if isinstance(left_out, int) and kept < _LEAST_KEPT * (kept + left_out):
        raise Unparsable("mostly_left_out", f"{kept:,} of {kept + left_out:,} words could be read")


def year_of(value: object) -> int:
    """The first year from 1800 to 2099 in a value, or 0."""
    if isinstance(value, datetime.date):
        return value.year
    found = _YEAR.search(str(value)[:_MAX_VALUE_CHARS])
    return int(found[1]) if found else 0


def _items(value: object) -> list[str]:
    parts: Iterable[object] = value if isinstance(value, list) else _SPLIT.split(str(value or ""))
    scalars = [_scalar(part) for part in list(parts)[:_MAX_ITEMS]]
    return [text for text in scalars if text]


def _scalar(value: object) -> str | None:
    if isinstance(value, (str, int, float, datetime.date)):
        return str(value)[:_MAX_VALUE_CHARS].strip()
    return None
