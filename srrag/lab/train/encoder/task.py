"""A training of an encoder: settings, questions with gold passages, and mined negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.core.spec import fingerprint
from srrag.lab.train.group import TrainingTask, check_settings
from srrag.model.encoder import Encoder
from srrag.storage.atomic_write import commit_json, read_json


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """How an encoder learns from questions with gold passages."""

    learning_rate: float = 3e-5
    """Rises over the first tenth of the steps, then falls to 0."""
    epochs: int = 1
    batch: int = 32
    """Questions a step, over all workers; each has the others' passages as negatives."""
    negatives: int = 1
    """Mined passages a question and step; 0: those of the other questions alone."""
    late: float = 0.5
    """Share of MaxSim in the loss; the rest is the cosine of the pooled vectors."""
    temperature: float = 0.05
    """What cosine and mean MaxSim are divided by before the softmax."""
    weight_decay: float = 0.01
    max_tokens: int = 256
    """Longer texts are cut here while training."""
    checkpoint_steps: int = 10
    """Steps between two checkpoints."""

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        least = {"epochs": 1, "batch": 2, "negatives": 0, "max_tokens": 4, "checkpoint_steps": 1}
        positive = ("learning_rate", "temperature")
        check_settings(self, least=least, positive=positive, shares=("weight_decay",))
        if not 0 <= self.late <= 1:
            raise ValueError(f"train.late={self.late} is outside 0…1")


@dataclass(frozen=True, kw_only=True)
class EncoderTask(TrainingTask):
    """One training of an encoder."""

    places = ("material", *TrainingTask.places)
    material: str
    """The file of questions and passages (`GoldMaterial`)."""
    base: Encoder
    settings: EncoderSettings


def task_of(plain: dict[str, Any]) -> EncoderTask:
    """The task that `plain` rendered."""
    base, settings = Encoder(**plain["base"]), EncoderSettings(**plain["settings"])
    return EncoderTask(**{**plain, "base": base, "settings": settings})


Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

MINED = 8
"""Number of mined passages a question; each step draws from them."""
NEAREST = 64
"""Number of passages nearest to a question that mining considers."""
TOO_NEAR = 0.95
"""A passage with more than this share of the best gold passage's cosine may be gold that nobody
judged, so it is no negative (NV-Retriever, arXiv 2407.15831, section 3.2: "TopK-PercPos")."""


@dataclass(frozen=True)
class GoldMaterial:
    """Questions; by question the places of its best gold, of all its gold, and of negatives."""

    questions: list[str]
    passages: list[str]
    best: list[list[int]]
    gold: list[list[int]]
    mined: list[list[int]]

    @property
    def fingerprint(self) -> str:
        """Hash of the content."""
        return fingerprint(asdict(self))

    def write(self, path: Path) -> None:
        """Write JSON, in one move."""
        path.parent.mkdir(parents=True, exist_ok=True)
        commit_json(path, asdict(self))


def read_material(path: Path, fingerprint_: str) -> GoldMaterial:
    """Read the file; raises ValueError if it is another than when the run began."""
    found = GoldMaterial(**read_json(path))
    if found.fingerprint != fingerprint_:
        raise ValueError(f"{path} has changed since the run began")
    return found


def make_material(
    questions: Sequence[str],
    passages: Sequence[str],
    gold: Sequence[dict[int, int]],
    vectors: tuple[Floats, Floats],
) -> GoldMaterial:
    """Mine negatives by `vectors` of questions and passages, and keep only what is learned from.

    `gold` maps the places of a question's passages to their grades, all above 0.
    """
    mined = mine(vectors[0], vectors[1], [[*each] for each in gold])
    best = [[p for p, grade in each.items() if grade == max(each.values())] for each in gold]
    used = sorted({place for each in (*gold, *mined) for place in each})
    new = {place: number for number, place in enumerate(used)}

    def renumbered(lists: Sequence[Sequence[int]]) -> list[list[int]]:
        return [sorted(new[place] for place in each) for each in lists]

    return GoldMaterial(
        list(questions),
        [passages[place] for place in used],
        renumbered(best),
        renumbered([[*each] for each in gold]),
        renumbered(mined),
    )


def mine(queries: Floats, passages: Floats, gold: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each question the MINED nearest passages that are not gold, nor TOO_NEAR to it."""
    found = []
    for query, own in zip(queries, gold, strict=True):
        cosines = passages @ query
        limit = TOO_NEAR * max(float(cosines[place]) for place in own)
        cosines[list(own)] = -2.0
        depth = min(NEAREST, len(cosines) - 1)
        near = np.argpartition(-cosines, depth)[:NEAREST]
        near = near[np.lexsort((near, -cosines[near]))]
        kept = [int(place) for place in near if -1.5 < cosines[place] <= limit]
        found.append(kept[:MINED])
    return found
