"""Tokens of a batch of texts, and the cues of each token for the tagger."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

TOKEN = re.compile(r"[^\W_]+(?:[-./'’·][^\W_]+)*|[^\w\s#*]|_")
"""Words, numbers and single marks, without the # and * of Markdown."""
_PARAGRAPH = re.compile(r"\n[ \t\r]{0,9}\n")
_DIGIT = re.compile(r"\d")
EDGE = "<edge>"
REACH = 3
"""Number of context tokens on each side."""

HEADINGS: dict[str, int] = {
    word: zone
    for zone, words in enumerate(
        (
            "background introduction context rationale importance",
            "objective objectives aim aims purpose goal",
            "methods method design patients setting participants materials interventions "
            "intervention subjects measurements measures procedure procedures",
            "results result findings outcomes",
            "conclusion conclusions interpretation discussion limitations significance",
        ),
        start=1,
    )
    for word in words.split()
}
"""The zone of a structured abstract that a heading word opens; 0 means before any heading."""

# Template -> (kind of value, offset). Kinds are computed once for each distinct token.
LOCAL: dict[str, tuple[str, int]] = {
    **{f"w{offset:+d}": ("word", offset) for offset in range(-REACH, REACH + 1)},
    **{f"s{offset:+d}": ("suffix3", offset) for offset in (-1, 0, 1)},
    "e+0": ("suffix4", 0),
    "p+0": ("prefix4", 0),
    **{f"h{offset:+d}": ("shape", offset) for offset in (-1, 0, 1)},
}

NUM_SHAPES = 16
NUM_ZONES = 6
NUM_PLACES = 7
_PUNCTUATION = {"(": 3, ")": 4, ",": 5, ".": 6, "%": 7}


def normal(token: str) -> str:
    """Lower-case a token and write every digit as 0."""
    return _DIGIT.sub("0", token.lower())


def shape(token: str) -> int:
    """Return a token's spelling class, 1 to 15: number, punctuation mark, capitals, hyphen."""
    first = token[0]
    if first.isdigit():
        return 1 if token.isdigit() else 2
    if not first.isalnum():
        return _PUNCTUATION.get(token, 8)
    if first.isupper():
        return 11 if not token.isupper() else 9 + (len(token) == 1)
    if token != token.lower():
        return 12
    return 13 if _DIGIT.search(token) else 15 - ("-" in token)


def values_of(token: str) -> dict[str, str]:
    """Return the value of each kind except shape for one normalised token."""
    return {"word": token, "suffix3": token[-3:], "suffix4": token[-4:], "prefix4": token[:4]}


@dataclass(frozen=True)
class RuleTokens:
    """All tokens of a batch in one sequence; text i owns tokens first[i] to first[i + 1].

    `start` and `end` are offsets in the token's text. `ids[kind]` and `place[template]` are value
    ids (0 = unknown). `ids` is padded by REACH edge tokens around each text; `at` is the padded
    position of every token.
    """

    first: Ints
    start: Ints
    end: Ints
    opens: npt.NDArray[np.bool_]
    at: Ints
    ids: dict[str, Ints]
    place: dict[str, Ints]

    def column(self, template: str) -> Ints:
        """Return the value ids of one template, one for each token."""
        if template in self.place:
            return self.place[template]
        kind, offset = LOCAL[template]
        return self.ids[kind][self.at + offset]


def tokenise(
    texts: Sequence[str],
    zones: Sequence[int],
    leads: Sequence[bool],
    values: Mapping[str, Mapping[str, int]],
) -> RuleTokens:
    """Split texts into tokens and look up the cues of each token.

    `zones` is the initial zone of each text, `leads` whether the text begins its document (only
    then do sentence numbers matter), `values` the known values of each kind.
    """
    local: dict[str, int] = {EDGE: 0}
    flat: list[int] = [0] * REACH
    start: list[int] = []
    end: list[int] = []
    first = [0]
    breaks: list[int] = []
    for text in texts:
        for match in TOKEN.finditer(text):
            flat.append(local.setdefault(match.group(), len(local)))
            begin, stop = match.span()
            start.append(begin)
            end.append(stop)
        if "\n" in text:
            starts = start[first[-1] :]
            paragraphs = (gap.end() for gap in _PARAGRAPH.finditer(text))
            breaks.extend(first[-1] + bisect_left(starts, place) for place in paragraphs)
        flat.extend((0,) * REACH)
        first.append(len(start))
    bounds = np.asarray(first, np.int64)
    owner = np.repeat(np.arange(len(texts)), np.diff(bounds))
    at = np.arange(len(start)) + REACH * (owner + 1)
    layout = _Layout(np.asarray(flat, np.int64), at, owner, bounds, list(local))
    ids = _distinct(local, values)
    sentence, opens = _sentences(layout, np.asarray(breaks, np.int64))
    zone = _zones(layout, opens, np.asarray(zones, np.int64))
    lead = np.asarray(leads, bool)[owner]
    return RuleTokens(
        first=bounds,
        start=np.asarray(start, np.int64),
        end=np.asarray(end, np.int64),
        opens=opens,
        at=at,
        ids={kind: column[layout.surface] for kind, column in ids.items() if kind[0] != "_"},
        place=_place(layout, ids, sentence=sentence, zone=zone, lead=lead),
    )


class _Layout(NamedTuple):
    """The distinct token at each padded position, and the owner of each position."""

    surface: Ints
    at: Ints
    owner: Ints
    bounds: Ints
    distinct: list[str]

    @property
    def here(self) -> Ints:
        """The number of the distinct token of each token."""
        return self.surface[self.at]


def _distinct(local: Mapping[str, int], values: Mapping[str, Mapping[str, int]]) -> dict[str, Ints]:
    """Return each distinct token's value ids, its length flag and its normalised form's id."""
    columns: dict[str, list[int]] = {kind: [0] for kind in ("suffix3", "suffix4", "prefix4")}
    word, shapes, long, form = [values["word"].get(EDGE, 0)], [0], [0], [0]
    forms: dict[str, int] = {EDGE: 0}
    known = [(values[kind], column) for kind, column in columns.items()]
    lookup = values["word"]
    tokens = iter(local)
    next(tokens)
    for token in tokens:
        lower = normal(token)
        word.append(lookup.get(lower, 0))
        for (table, column), value in zip(known, (lower[-3:], lower[-4:], lower[:4]), strict=True):
            column.append(table.get(value, 0))
        shapes.append(shape(token))
        long.append(len(token) > 3)
        form.append(forms.setdefault(lower, len(forms)))
    named = {**columns, "word": word, "shape": shapes, "_long": long, "_form": form}
    return {kind: np.asarray(column, np.int64) for kind, column in named.items()}


def _sentences(layout: _Layout, breaks: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return each token's sentence number within its text, and whether it opens the sentence.

    A sentence opens a text, or follows a full stop or a blank line (`breaks`).
    """
    at, bounds = layout.at, layout.bounds
    stops = np.array([token in {".", "?", "!"} for token in layout.distinct])
    begins = np.array([tok[0].isupper() or tok[0] in "[0123456789" for tok in layout.distinct])
    opens = stops[layout.surface[at - 1]] & begins[layout.here]
    opens[bounds[:-1][np.diff(bounds) > 0]] = True
    opens[breaks[breaks < len(at)]] = True
    total = np.cumsum(opens)
    if not len(at):
        return total, opens
    firsts = bounds[:-1].clip(max=len(at) - 1)
    return total - total[firsts][layout.owner], opens


def _zones(layout: _Layout, opens: npt.NDArray[np.bool_], initial: Ints) -> Ints:
    """Return the zone of each token: that of the last heading in its text, else the initial one."""
    if not len(layout.at):
        return np.zeros(0, np.int64)
    tokens, here, owner = layout.distinct, layout.here, layout.owner
    heading = np.array([HEADINGS.get(token.lower(), 0) for token in tokens])
    capital = np.array([token.isupper() for token in tokens])
    titled = np.array([token[0].isupper() for token in tokens])
    colon = np.array([mark == ":" for mark in tokens])
    alone = np.append(opens[1:], False)  # a word that ends its line
    marked = titled[here] & (colon[layout.surface[layout.at + 1]] | alone)
    found = (heading[here] > 0) & ((opens & capital[here]) | marked)
    last = np.maximum.accumulate(np.where(found, np.arange(len(here)), -1))
    inside = (last >= 0) & (owner[last] == owner)
    return np.where(inside, heading[here][last], initial[owner])


def _place(
    layout: _Layout,
    ids: Mapping[str, Ints],
    *,
    sentence: Ints,
    zone: Ints,
    lead: npt.NDArray[np.bool_],
) -> dict[str, Ints]:
    """Return the value ids (from 1) of the positional templates."""
    here = layout.here
    form, long = ids["_form"][here], ids["_long"][here]
    step = np.searchsorted([1, 2, 3, 4, 7], sentence, side="right")
    step = np.where(lead, step, NUM_PLACES - 1)
    key = layout.owner * (len(ids["_form"]) + 1) + form
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    title = lead & (sentence == 0)
    named = np.zeros(counts.shape, bool)
    named[inverse[title]] = True
    return {
        "zone": 1 + zone * NUM_PLACES + step,
        "title": 1 + named[inverse] * 4 + title * 2 + long,
        "count": 1 + np.minimum(counts[inverse], 5) * 2 + long,
        "zone_shape": 1 + zone * NUM_SHAPES + ids["shape"][here],
    }
