"""Label tokens as P, I, O or none: sums of cue weights, then the best path.

The weights are whole numbers in a readable table (`mentions.tsv`, made by
`python -m srrag.lab.fits.lexicon`), so sums are exact and do not depend on the batch.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.core.provenance import KEY, Fitted, read_fitted
from srrag.reading.tokens import (
    LOCAL,
    NUM_PLACES,
    NUM_SHAPES,
    NUM_ZONES,
    Ints,
    RuleTokens,
    normal,
    values_of,
)

LABELS = ("", "P", "I", "O")
SCALE = 16
"""Weights are written in sixteenths of a nat."""
_TALLEST = 1 << 30
_FITTED = f"# {KEY} "
PLACE_SIZES = {
    "zone": 1 + NUM_ZONES * NUM_PLACES,
    "title": 9,
    "count": 13,
    "zone_shape": 1 + NUM_ZONES * NUM_SHAPES,
}


@dataclass(frozen=True)
class Lexicon:
    """Weights of P, I and O for each value of each template, and of label transitions."""

    values: dict[str, dict[str, int]]
    weights: dict[str, Ints]
    moves: Ints
    """moves[a, b]: weight of label b after label a."""
    lean: Ints
    """Added to every token: the bias of each label over none."""


def parse_lexicon(text: str) -> Lexicon:
    """Read the table: `template value P I O` a line, `move a b weight`, `lean P I O`,
    `# ` before a remark.

    Raises ValueError that names the line.
    """
    values: dict[str, dict[str, int]] = {
        kind: {} for kind in ("word", "suffix3", "suffix4", "prefix4")
    }
    rows: dict[str, list[tuple[int, tuple[int, ...]]]] = {
        name: [] for name in (*LOCAL, *PLACE_SIZES)
    }
    moves = np.zeros((4, 4), np.int64)
    lean = np.zeros(3, np.int64)
    for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
        if line.startswith("# "):
            continue
        name, *rest = line.split("\t")
        try:
            if name == "move":
                moves[int(rest[0]), int(rest[1])] = int(rest[2])
            elif name == "lean":
                lean[:] = [int(item) for item in rest]
            else:
                known = values.get(LOCAL[name][0]) if name in LOCAL else None
                index = int(rest[0]) if known is None else known.setdefault(rest[0], len(known) + 1)
                rows[name].append((index, (int(rest[1]), int(rest[2]), int(rest[3]))))
        except (KeyError, ValueError, IndexError) as error:
            raise ValueError(f"lexicon line {number}: {line[:60]!r} is not a weight") from error
    weights = {name: _dense(name, entries, values) for name, entries in rows.items()}
    return Lexicon(values=values, weights=weights, moves=moves, lean=lean)


def with_fitted(text: str, block: Mapping[str, Any]) -> str:
    """Return the table with a note on its training data, replacing an earlier one."""
    remark, *rest = [line for line in text.split("\n") if not line.startswith(_FITTED)]
    return "\n".join([remark, _FITTED + json.dumps(block), *rest])


def lexicon_fitted(text: str) -> Fitted:
    """Read from the table what it was fitted on."""
    found = (line for line in text.split("\n") if line.startswith(_FITTED))
    block = next((json.loads(line.removeprefix(_FITTED)) for line in found), None)
    return read_fitted({KEY: block}, "lexicon", "mentions.tsv")


def _dense(
    name: str, entries: list[tuple[int, tuple[int, ...]]], values: dict[str, dict[str, int]]
) -> Ints:
    kind = LOCAL[name][0] if name in LOCAL else name
    size = PLACE_SIZES.get(name) or (NUM_SHAPES if kind == "shape" else len(values[kind]) + 1)
    table = np.zeros((size, 3), np.int64)
    for index, weights in entries:
        table[index] = weights
    return table


@functools.cache
def shipped_lexicon() -> Lexicon:
    """The lexicon that comes with the package."""
    return parse_lexicon(_shipped())


@functools.cache
def shipped_fitted() -> Fitted:
    """The training data of the packaged lexicon."""
    return lexicon_fitted(_shipped())


def _shipped() -> str:
    return resources.files("srrag.reading").joinpath("mentions.tsv").read_text("utf-8")


def emissions(tokens: RuleTokens, lexicon: Lexicon) -> Ints:
    """Return the score of each label (columns) for each token: (num_tokens, 4), none being 0.

    The unit is a sixteenth of a nat.
    """
    scores = np.zeros((len(tokens.start), 4), np.int64)
    scores[:, 1:] = lexicon.lean
    for name, table in lexicon.weights.items():
        if len(table) > 1:
            scores[:, 1:] += table[tokens.column(name)]
    return scores


@functools.cache
def treatment_weight(word: str) -> float:
    """How much a word's own letters speak for a treatment, in nats: the word, its beginning, end.

    0 for a word of which nothing is known.
    """
    lexicon, told = shipped_lexicon(), values_of(normal(word))
    total = 0
    for name, (kind, offset) in LOCAL.items():
        if kind in told and not offset:
            total += int(lexicon.weights[name][lexicon.values[kind].get(told[kind], 0), 1])
    return total / SCALE


def best_path(scores: Ints, first: Ints, moves: Ints) -> Ints:
    """Return the labels with the highest sum of scores and transitions (Viterbi); ties go low.

    Texts advance together, longest first, so each step is one small matrix operation.
    """
    lengths = np.diff(first)
    order = np.argsort(-lengths, kind="stable")
    begin, sizes = first[:-1][order], lengths[order]
    labels = np.zeros(len(scores), np.int64)
    longest = int(sizes[0]) if len(sizes) else 0
    if not longest:
        return labels
    alive = np.searchsorted(-sizes, -np.arange(longest), side="left")
    back = np.zeros((len(scores), 4), np.int8)
    total = np.full((len(sizes), 4), -_TALLEST, np.int64)
    total[: alive[0]] = scores[begin[: alive[0]]]
    for step in range(1, longest):
        count = alive[step]
        ways = total[:count, :, None] + moves
        places = begin[:count] + step
        back[places] = ways.argmax(1)
        total[:count] = ways.max(1) + scores[places]
    current = total.argmax(1)
    for step in range(longest - 1, -1, -1):
        count = alive[step]
        places = begin[:count] + step
        labels[places] = current[:count]
        current[:count] = back[places, current[:count]]
    return labels


def margins(scores: Ints, labels: Ints) -> npt.NDArray[np.float64]:
    """Return the lead of each token's label over the next best, in nats, without transitions."""
    rows = np.arange(len(labels))
    chosen = scores[rows, labels]
    others = scores.copy()
    others[rows, labels] = -_TALLEST
    return np.asarray((chosen - others.max(1, initial=-_TALLEST)) / SCALE, np.float64)
