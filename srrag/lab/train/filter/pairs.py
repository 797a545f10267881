"""A training of a filter: judged pairs of question and passage, and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from srrag.algo.classification import held_names
from srrag.core.spec import canonical
from srrag.lab.datasets import json_lines
from srrag.lab.train.group import TrainingTask, check_settings
from srrag.model.filter import Base
from srrag.model.pair_causal import LoRA

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TEXTS = ("query_id", "query", "passage")
LABEL = "label"
LABELS = {"yes": 1, "no": 0}


@dataclass(frozen=True)
class JudgedPairs:
    """Questions with passages, and whether each passage holds evidence for its question."""

    path: str
    query_ids: tuple[str, ...]
    questions: tuple[str, ...]
    passages: tuple[str, ...]
    labels: Floats
    """1 for yes, 0 for no, (pairs,)."""
    groups: Ints
    """Index of each pair's question; questions with the same words share one."""

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.questions)

    @property
    def num_questions(self) -> int:
        """Number of questions."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def fingerprint(self) -> str:
        """A hash of all pairs in their order."""
        digest = hashlib.blake2b(digest_size=16)
        rows = zip(self.query_ids, self.questions, self.passages, self.labels, strict=True)
        for row in rows:
            digest.update(canonical(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def select(self, keep: npt.NDArray[Any]) -> JudgedPairs:
        """The pairs at these places (or of this mask), with their questions renumbered."""
        rows = np.arange(len(self))[keep]

        def some(column: Sequence[str]) -> tuple[str, ...]:
            return tuple(column[row] for row in rows)

        _, groups = np.unique(self.groups[rows], return_inverse=True)
        return JudgedPairs(
            self.path, some(self.query_ids), some(self.questions), some(self.passages),
            self.labels[rows], groups.astype(np.int64),
        )  # fmt: skip

    def without_questions_of(self, other: JudgedPairs) -> JudgedPairs:
        """The pairs whose question does not occur, in the same words, in the other set."""
        asked = {same_words(question) for question in other.questions}
        keep = [same_words(question) not in asked for question in self.questions]
        return self.select(np.array(keep, bool))

    def seen_passages(self, other: JudgedPairs) -> npt.NDArray[np.bool_]:
        """By pair: whether its passage also occurs in the other set, with any question."""
        known = {same_words(passage) for passage in other.passages}
        return np.array([same_words(passage) in known for passage in self.passages], bool)


def read_judged(path: Path) -> JudgedPairs:
    """Read JSON lines with query_id, query, passage and label (0, 1, Yes, No).

    Raises ValueError in one line that names the file and the line. It rejects a file
    without pairs, a line that is not a JSON object, a missing column, a value that is not text, an
    empty text, an unknown label, and a pair with both labels.
    """
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    rows = list(json_lines.rows(path, "a judged pair", (*TEXTS, LABEL)))
    if not rows:
        raise ValueError(f"{path}: there is no pair")
    columns = [tuple(str(row[name]) for _, row in rows) for name in TEXTS]
    labels = np.array([_checked(place, row) for place, row in rows], np.float64)
    number: dict[str, int] = {}
    words = [same_words(question) for question in columns[1]]
    groups = np.array([number.setdefault(word, len(number)) for word in words], np.int64)
    _check_contradictions([place for place, _ in rows], words, columns[2], labels)
    return JudgedPairs(str(path), columns[0], columns[1], columns[2], labels, groups)


def _checked(place: str, row: dict[str, Any]) -> int:
    """The label of a row of texts; raises ValueError that names the place and the column."""
    for name in TEXTS:
        if not isinstance(row[name], str) or not row[name].strip():
            raise ValueError(f"{place}: column {name!r} is {row[name]!r}, not a text")
    given = row[LABEL]
    label = LABELS.get(given.strip().lower()) if isinstance(given, str) else given
    if isinstance(label, list | dict) or label not in (0, 1):
        raise ValueError(f"{place}: column {LABEL!r} is {given!r}: one of 0, 1, Yes, No")
    return int(label)


def _check_contradictions(
    places: Sequence[str], words: Sequence[str], passages: Sequence[str], labels: Floats
) -> None:
    judged: dict[tuple[str, str], int] = {}
    for place, key in enumerate(zip(words, map(same_words, passages), strict=True)):
        first = judged.setdefault(key, place)
        if labels[first] != labels[place]:
            raise ValueError(
                f"{places[first]} and {places[place]} judge the same pair of question and passage "
                "both ways"
            )


def check_both_classes(pairs: JudgedPairs) -> None:
    """Raise ValueError unless some question has passages of both kinds.

    Without one, a filter could learn to tell questions apart instead of passages.
    """
    positive = np.bincount(pairs.groups, pairs.labels, minlength=pairs.num_questions)
    sizes = np.bincount(pairs.groups, minlength=pairs.num_questions)
    if not ((positive > 0) & (positive < sizes)).any():
        kinds = ", ".join(sorted({"yes" if label else "no" for label in pairs.labels}))
        raise ValueError(
            f"{pairs.path}: no question has both a passage with evidence and one without "
            f"(labels: {kinds}); there is nothing to learn"
        )


def folds(pairs: JudgedPairs, count: int, seed: int) -> Ints:
    """The fold of each pair, 0…count-1; a question's pairs share one.

    Which fold depends on the questions' words and the seed, not on the order of the rows. Raises
    ValueError for fewer questions than folds.
    """
    words = sorted({same_words(question) for question in pairs.questions})
    if not 2 <= count <= len(words):
        raise ValueError(f"{pairs.path}: {len(words)} questions cannot make {count} folds")
    order = np.random.default_rng(seed).permutation(len(words))
    fold = {word: int(place) % count for word, place in zip(words, order, strict=True)}
    return np.array([fold[same_words(question)] for question in pairs.questions], np.int64)


def held_out(pairs: JudgedPairs, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """By pair: whether its question is among the `share` that is held out (at least one).

    Raises ValueError if no question is left to train on.
    """
    words = [same_words(question) for question in pairs.questions]
    held = held_names(words, share, seed, least=1)
    if len(held) == len(set(words)):
        raise ValueError(f"{pairs.path}: {len(held)} questions leave none to train on")
    return np.array([each in held for each in words], bool)


def same_words(text: str) -> str:
    """Normalise case and white space, so that texts with the same words are equal."""
    return " ".join(text.casefold().split())


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """How a model learns from pairs; DEFAULTS holds the numbers for each kind of model."""

    learning_rate: float
    """Rises over the first tenth of the steps, then falls to 0."""
    batch: int
    """Pairs a step, over all workers."""
    epochs: int
    weight_decay: float = 0.01
    yes_weight: float = 1.0
    """Weight in the loss of a pair with evidence; other pairs weigh 1."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of matrix products while training; the weights keep their own precision."""
    checkpointing: bool = False
    """Recompute activations in the backward pass instead of keeping them (causal models)."""
    shard: bool = False
    """Shard weights, gradients and optimizer state over the workers (FSDP)."""

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        check_settings(
            self,
            least={"epochs": 1, "batch": 1},
            positive=("learning_rate", "yes_weight"),
            shares=("weight_decay",),
            choices={"precision": ("float32", "bfloat16")},
        )


DEFAULTS: dict[str, dict[str, Any]] = {
    "encoder": {"learning_rate": 5e-5, "batch": 16, "epochs": 2},
    # Rethinking RAG in medicine, section 4.2.
    "causal": {"learning_rate": 2e-6, "batch": 8, "epochs": 3},
    # LoRA has few new weights, which start without effect, so it needs larger steps.
    "lora": {"learning_rate": 1e-4, "batch": 8, "epochs": 3},
}
"""Default settings by kind of model; `lora` is a causal model with low-rank updates."""


@dataclass(frozen=True, kw_only=True)
class FilterTask(TrainingTask):
    """One training: which pairs of a file, of what model, how, and from which seed.

    `fold` says which of `folds` is held out; -1 holds the share `share` out, which may be 0.
    """

    places = ("pairs", "other", *TrainingTask.places)
    pairs: str
    other: str | None
    """A test file: training leaves out its questions, matched word for word."""
    base: Base
    settings: FilterSettings
    folds: int
    fold: int
    share: float
    split_seed: int


def task_of(plain: dict[str, Any]) -> FilterTask:
    """The task that `plain` rendered."""
    base = dict(plain["base"])
    base["lora"] = base["lora"] and LoRA(**base["lora"])
    settings = FilterSettings(**plain["settings"])
    return FilterTask(**{**plain, "base": Base(**base), "settings": settings})
