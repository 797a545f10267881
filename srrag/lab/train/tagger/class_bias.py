"""Choose the bias of P, I and O against none on held-out abstracts, one class at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from srrag.algo.token_f1 import CLASSES, Counts, Labels, figures, token_counts
from srrag.lab.train.tagger.abstracts import Abstract
from srrag.model.tagger import Floats, Words

LEANS = tuple(round(0.1 * step, 1) for step in range(-15, 26))
"""Biases to try for each class's log-odds, in nats."""
ROUNDS = 2
"""How often each class's bias is optimised."""

Total = Callable[[Counts], Counts]


def token_scores(abstract: Abstract, words: Words) -> Floats:
    """Log-probabilities (tokens, 1 + classes) of an abstract's tokens, from their first words.

    A token without a word (two blanks in a row) has class none with certainty.
    """
    lengths = [len(token) + 1 for token in abstract.text.split(" ")]
    starts = np.cumsum([0, *lengths[:-1]])
    place = np.searchsorted(words.end, starts, "right")
    scores = np.zeros((len(starts), 1 + len(CLASSES)), np.float32)
    scores[:, 1:] = -np.inf
    within = place < len(words.start)
    within[within] = words.start[place[within]] <= starts[within]
    scores[within] = words.scores[place[within]]
    return scores


def choose_lean(
    scores: Floats, gold: Labels, total: Total
) -> tuple[tuple[float, ...], dict[str, float]]:
    """The lean with the best token macro F1, and the figures with it; ties go low.

    `total` adds counts over the workers, each of which holds its own tokens.
    """
    lean = [0.0] * len(CLASSES)
    best = 0.0
    for _ in range(ROUNDS):
        for place in range(len(CLASSES)):
            tried = [[*lean[:place], value, *lean[place + 1 :]] for value in LEANS]
            counts = total(np.stack([_counts(scores, gold, one) for one in tried]))
            macro = [figures(one)["token_macro_F1"] for one in counts]
            if max(macro) > best:
                best = max(macro)
                lean = tried[macro.index(best)]
    return tuple(lean), figures(total(_counts(scores, gold, lean)))


def _counts(scores: Floats, gold: Labels, lean: list[float]) -> npt.NDArray[np.float64]:
    found = (scores + np.array([0.0, *lean], np.float32)).argmax(1)
    return token_counts(gold, found.astype(np.int8))
