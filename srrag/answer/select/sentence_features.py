"""Features by which sentences are chosen: naming what was asked, and stating a finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from srrag.reading.effects import cues
from srrag.reading.lexicon import alternatives, lexicon
from srrag.reading.outcome_kinds import NAMES, named_terms
from srrag.reading.prose import Role

Floats = npt.NDArray[np.float64]

FEATURES = (
    "own", "beside", "outcome", "conclusion", "result", "background", "method", "finding", "plan",
    "direction", "numbers", "leans", "length", "short", "first_passage", "rank", "place",
    "result_outcome", "conclusion_own", "direction_outcome", "numbers_outcome", "definition",
)  # fmt: skip
"""What `features` measures of a sentence, in order."""

FINDING = lexicon("finding")
PLAN = lexicon("plan")
NUMBERS = re.compile(r"\bp\s?[<=>≤]|\bCI\b|confidence interval|\d\s?%|±|\b[OHR]R\b", re.IGNORECASE)
_DEFINITION = re.compile(r"\b(?:is|are) (?:an?|the|caused|characteri[sz]ed|defined)\b")
_ON = re.compile(
    r"\b(?:on|reduce|improve|affect|increase|prevent|decrease|lower|influence|relieve|shorten|"
    r"help with)\s+(.+?)(?:\s+(?:in|among|for|after|during)\s+(?:[\w-]+\s+){0,2}?"
    rf"(?:{alternatives('person', 'animal', 'grouped')}|older)\b.*)?\?*$",
    re.IGNORECASE,
)


class Seen(NamedTuple):
    """What is known of a candidate: shares of the question (0…1), and where it stands.

    `own` is the share of the question's weight that its own words carry, `beside` what only its
    passage or title does, `outcome` the share of the asked outcome. `rank` counts passages from 0,
    `place` is 0 at the start of its passage and 1 at its end.
    """

    text: str
    role: Role
    own: float
    beside: float
    outcome: float
    leans: bool
    rank: int
    place: float


def asked_outcome(question: str) -> str:
    """The words of the outcome that a question asks for, the whole question if that is not told.

    "Is yoga safe in pregnancy?" asks for harm, in this word or another.
    """
    if found := _ON.search(question):
        return found[1]
    kinds = NAMES.intersection(named_terms(question))
    return " ".join(sorted(kinds)) or question


def features(found: Sequence[Seen]) -> Floats:
    """FEATURES of each candidate, float64 (candidates, features)."""
    return np.array([_row(each) for each in found], np.float64).reshape(len(found), len(FEATURES))


def _row(each: Seen) -> list[float]:
    directed, counted = bool(cues(each.text)), bool(NUMBERS.search(each.text))
    words = each.text.count(" ") + 1
    return [
        each.own,
        each.beside,
        each.outcome,
        each.role == "conclusion",
        each.role == "result",
        each.role == "background",
        each.role == "method",
        bool(FINDING.search(each.text)),
        bool(PLAN.search(each.text)),
        directed,
        counted,
        each.leans,
        min(words, 60) / 60,
        words < 10,
        each.rank == 0,
        1 / (1 + each.rank),
        each.place,
        (each.role == "result") * each.outcome,
        (each.role == "conclusion") * each.own,
        directed * each.outcome,
        counted * each.outcome,
        bool(_DEFINITION.search(each.text)),
    ]
