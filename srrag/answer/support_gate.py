"""Decides which sentences of an answer stay, by the windows that each one cites."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from srrag.answer.extractive import DISAGREEMENT
from srrag.answer.statements import content, effects, numbers
from srrag.answer.support_signs import (
    Floats,
    Signs,
    Window,
    measures,
    nearest,
    signs,
    verbatim,
)

FITTED = Path(__file__).parent / "support.json"
"""What `python -m perf.support fit` wrote; it names what it was fitted on."""

Encode = Callable[[Sequence[str]], Floats]
"""Unit vectors of texts, (n, dim)."""

JUDGED = "judged"
FAULTS = {
    "unsupported": "not supported by what was cited",
    "cites_everything": "cited everything",
    "echo": "only repeated the question",
    "repeated": "said twice",
    "question_title": "a question, or a title that is one",
    "placeholder": "without a statement",
    JUDGED: "not supported by what was cited, a model judged",
}
"""Why a sentence is dropped, in words for the reader."""

MIN_EVERYTHING = 4
"""With so many pieces of evidence or more, a sentence that cites all of them is suspected."""
NEAR = 0.75
"""A sentence is near to a window's sentence that holds at least this share of its words."""
_ALIKE = 0.9
_LEAD = re.compile(
    r"^(?:Grade [A-E](?:, (?:guideline or consensus|systematic review or meta-analysis"
    r"|randomised trial|cohort study|other study))?|Without a grade): "
)
_DIFFERENCE = re.compile(
    r"^(?:The question asks about .{1,400}, while|Other than the question,) this evidence "
    r"speaks of (?P<found>.{1,200})\.$"
)
"""What the rules write before a quote, and of evidence about others: its phrase is a quote."""
_WORDS = re.compile(r"[^\W_]+")
_ASKS = re.compile(
    r"^(?:is|are|was|were|do|does|did|can|could|should|may|might|will|would|has|have|what|which"
    r"|who|whom|whose|when|where|why|how)\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"^\W*(?:(?:the |an? |your )?(?:answer|sentence|text|string|claim|statement|example|evidence"
    r"|citation|none|null|n/?a|todo|tbd|unknown|lorem ipsum)\b[\s\w]{0,12}\W*"
    r"|.*(?:\bgoes here\b|\blorem ipsum\b|<[a-z _]{2,30}>|\{[a-z_ ]{2,30}\}|\[insert\b).*"
    r"|(?:sentence|claim|statement|text)\s*\d+\W*)$",
    re.IGNORECASE,
)
MIN_CONTENT = 2
"""Fewest content words with which a sentence states something."""


@dataclass(frozen=True)
class GateFit:
    """Weights of the measures, and the least score of support far from and near to the words."""

    weights: Mapping[str, float]
    bias: float
    far: float
    near: float

    def score(self, found: Signs) -> float:
        """How likely the window supports the sentence, in (0, 1), for pairs like those fitted."""
        total = self.bias + sum(self.weights[k] * x for k, x in measures(found).items())
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))

    def supports(self, found: Signs) -> bool:
        """Whether the score suffices, and nothing vetoes it."""
        least = self.near if found.closest >= NEAR else self.far
        return not vetoed(found) and self.score(found) >= least


def vetoed(found: Signs) -> bool:
    """Whether a number of its own, or other people, drop a sentence whatever its score."""
    return found.missing_numbers > 0 or found.population > 0


@cache
def fitted(path: Path = FITTED) -> GateFit:
    """The packaged fit; raises ValueError for a file that is of other measures."""
    said = json.loads(path.read_text("utf-8"))
    if list(said["weights"]) != list(measures(Signs(*[0.0] * len(Signs._fields)))):
        raise ValueError(f"{path}: weights of {', '.join(said['weights'])}, which are others")
    return GateFit(said["weights"], said["bias"], **said["threshold"])


class Verdict(NamedTuple):
    """The citations that are kept, by number from 1, and why the sentence is dropped, if it is."""

    cites: tuple[int, ...]
    fault: str = ""


class Gate:
    """Checks the sentences of one answer in their order; vectors are made once a text.

    `question` is what was asked, `windows` the evidence by number from 1. What a window holds
    word for word is supported, without a vector. A verdict rests on the sentence and on those
    before it alone, so a draft may be checked as it grows.
    """

    def __init__(
        self, question: str, windows: Sequence[Window], encode: Encode, fit: GateFit | None = None
    ) -> None:
        """Bind what the sentences are checked against."""
        self._question = _plain(question)
        self._windows = windows
        self._titles = {_plain(window.title) for window in windows if _asks(window.title)}
        self._encode = encode
        self._fit = fit or fitted()
        self._vectors: dict[str, Floats] = {}
        self._told: list[str] = []

    def check(self, sentence: str, cites: Sequence[int]) -> Verdict:
        """Return the verdict on the next sentence; a sentence without citations passes."""
        said = statement(sentence)
        if fault := self._fault(said):
            return Verdict((), fault)
        cites = tuple(n for n in dict.fromkeys(cites) if 1 <= n <= len(self._windows))
        kept = tuple(n for n in cites if self._supports(said, self._windows[n - 1]))
        everything = len(cites) == len(self._windows) >= MIN_EVERYTHING
        if everything and 2 * len(kept) < len(cites):
            return Verdict((), "cites_everything")
        if cites and not kept:
            return Verdict((), "unsupported")
        self._told.append(said)
        return Verdict(kept)

    def _fault(self, said: str) -> str:
        """The fault of a sentence that no citation can mend; "" for none."""
        words = _plain(said)
        quoted = any(verbatim(said, window) for window in self._windows)
        if self._question and self._question in words and not quoted:
            return "echo"
        if said.rstrip().endswith("?") or words in self._titles:
            return "question_title"
        if not quoted and (len(content(said)) < MIN_CONTENT or _PLACEHOLDER.match(said)):
            return "placeholder"
        return "repeated" if any(_same(said, other) for other in self._told) else ""

    def _supports(self, said: str, window: Window) -> bool:
        if stands_by_itself(said, window):
            return True
        if _DIFFERENCE.match(said):
            return False
        bare = signs(said, window, 0.0)
        if vetoed(bare):
            return False
        similarity = nearest(self._of([said])[0], self._of(window.stretches))
        return self._fit.supports(bare._replace(similarity=similarity))

    def _of(self, texts: Sequence[str]) -> Floats:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._encode(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


def statement(sentence: str) -> str:
    """A sentence without the grade that the rules write before it."""
    return _LEAD.sub("", sentence)


def stands_by_itself(said: str, window: Window) -> bool:
    """Whether a statement needs no judge: a quote, or what the rules say of their own quotes."""
    if verbatim(said, window) or said == DISAGREEMENT:
        return True
    difference = _DIFFERENCE.match(said)
    return difference is not None and _plain(difference["found"]) in _plain(
        f"{window.title} {window.text}"
    )


def _same(a: str, b: str) -> bool:
    """Whether two sentences say the same in nearly the same words."""
    one, other = content(a), content(b)
    if len(one & other) < _ALIKE * len(one | other):
        return False
    values = [sorted({c.value for c in (*numbers(each), *effects(each))}) for each in (a, b)]
    return values[0] == values[1]


def _asks(title: str) -> bool:
    return title.rstrip().endswith("?") or bool(_ASKS.match(title.strip()))


def _plain(text: str) -> str:
    """The words alone, in small letters."""
    return " ".join(_WORDS.findall(text.casefold()))
