"""The file of abbreviations that a build writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from srrag.storage.mirror import pull_build

_PAIR = re.compile(r"\(\s*([^()\[\]{};,]{2,12}?)\s*[);,]")
_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9/+.-]*(?: [A-Za-z0-9][A-Za-z0-9/+.-]*)?")
_STOP = re.compile(r"[.;:!?](?:\s|$)|[()\[\]]")
_BRACKETED = re.compile(r"(?P<long>[^()]{4,200}) \((?P<short>[^()\s]{2,12})\)")
_MAX_WORDS = 2


def abbreviations(text: str) -> Iterator[tuple[str, str]]:
    """Yield (short form, long form) of each definition in a text, in order.

    The algorithm of Schwartz and Hearst (2003): the long form stands before the short form in
    parentheses, within min(|short| + 5, 2 |short|) words and one sentence; it is the shortest
    stretch of whole words that contains the letters of the short form in order, matched from the
    right; the first letter begins a word. Short forms have 2 to 10 characters, at most two words,
    and a letter.
    """
    for found in _PAIR.finditer(text):
        short = found[1].strip()
        if not _is_short(short):
            continue
        size = len(short)
        before = _sentence(text[: found.start()])
        words = before.split()[-min(size + 5, 2 * size) :]
        long = long_form(short, " ".join(words))
        if not _contains(long, short):
            yield short, long


def long_form(short: str, text: str) -> str:
    """The shortest end of a text that a short form may abbreviate, "" if there is none."""
    place = len(text)
    for n in range(len(short) - 1, -1, -1):
        letter = short[n].lower()
        if not letter.isalnum():
            continue
        place -= 1
        while place >= 0 and not (
            text[place].lower() == letter and (n > 0 or _begins_word(text, place))
        ):
            place -= 1
        if place < 0:
            return ""
    start = text.rfind(" ", 0, place) + 1
    # The first letter has to begin a word, or the part of a word after a hyphen.
    return text[start:].strip(" ,-\"'")


def _begins_word(text: str, place: int) -> bool:
    return place == 0 or not text[place - 1].isalnum()


def _is_short(text: str) -> bool:
    return (
        2 <= len(text) <= 10
        and len(text.split()) <= _MAX_WORDS
        and any(char.isupper() for char in text)
        and _SHORT.fullmatch(text) is not None
    )


def _sentence(text: str) -> str:
    """The end of a text after its last stop or bracket."""
    tail = text[-200:]
    stops = [found.end() for found in _STOP.finditer(tail)]
    return tail[stops[-1] if stops else 0 :].strip()


def _contains(long: str, short: str) -> bool:
    """Whether the long form is no longer than the short one, or has it as a word."""
    return len(long) <= len(short) or short.lower() in long.lower().split()


def written_out(name: str, long: Mapping[str, str]) -> str:
    """A name without its abbreviation: `long` for a short form alone, "long form (LF)" without it.

    The bracket has to hold a short form that the corpus defines.
    """
    if name in long:
        return long[name]
    found = _BRACKETED.fullmatch(name)
    return found["long"] if found and found["short"] in long else name


FILE = "abbreviations.json"


def read_abbreviations(folder: Path) -> dict[str, str]:
    """Read what the build wrote; raises ValueError that names an unreadable file."""
    pull_build(folder)
    path = folder / FILE
    try:
        found: dict[str, str] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not the abbreviations of a build ({error})") from error
    return found
