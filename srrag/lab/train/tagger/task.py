"""A training of a tagger: settings, and abstracts with P, I and O spans (EBM-NLP)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.classification import CLASSES, Labels, held_names
from srrag.lab.datasets import json_lines
from srrag.lab.train.group import TrainingTask, check_settings
from srrag.model.tagger import Reading


@dataclass(frozen=True, kw_only=True)
class TaggerSettings:
    """How a tagger is trained; the defaults were chosen on held-out crowd abstracts."""

    encoder: str = "minilm"
    """`minilm` (packaged), a local folder or a hub id."""
    revision: str | None = None
    """Commit of a hub model, or the hash of what a folder holds."""
    epochs: int = 2
    learning_rate: float = 3e-4
    """Rises over the first tenth of the steps, then falls to 0."""
    head_factor: float = 10.0
    """How much faster the new classifier learns than the encoder."""
    weight_decay: float = 0.01
    dropout: float = 0.0
    """Two passes over so few texts need none, and without it they are faster."""
    frozen_layers: int = 2
    """Layers from below, with the embeddings, that stay as they are; 0: everything learns."""
    batch_tokens: int = 768
    """Pieces of words a step, over all workers."""
    window: int = 192
    context: int = 24
    precision: str = "float32"
    """Precision of matrix products while training: float32, or bfloat16 if the processor has it."""

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        check_settings(
            self,
            least={"epochs": 1, "batch_tokens": 1, "window": 1, "frozen_layers": 0},
            positive=("learning_rate", "head_factor"),
            shares=("dropout", "weight_decay"),
            choices={"precision": ("float32", "bfloat16")},
        )
        self.reading()

    def reading(self, lean: Sequence[float] = (0.0, 0.0, 0.0)) -> Reading:
        """How the trained tagger reads texts."""
        return Reading(window=self.window, context=self.context, lean=tuple(lean))


@dataclass(frozen=True, kw_only=True)
class TaggerTask(TrainingTask):
    """One training of a tagger."""

    places = ("crowd", *TrainingTask.places)
    crowd: str
    settings: TaggerSettings
    share: float
    """Share of the abstracts that are held out."""
    split_seed: int


_KEYS = ("id", "text", "spans")


@dataclass(frozen=True)
class Abstract:
    """A text whose tokens are parted by single blanks, and the class of each character."""

    abstract_id: str
    text: str
    marks: Labels

    @property
    def labels(self) -> Labels:
        """The class of each token."""
        lengths = [len(token) + 1 for token in self.text.split(" ")]
        starts = np.cumsum([0, *lengths[:-1]])
        # Two blanks in a row part an empty token, which no span can label.
        labels: Labels = np.append(self.marks, np.int8(0))[starts]
        return labels


def read_abstracts(path: Path) -> list[Abstract]:
    """Read a JSON object a line: `id`, `text`, `spans[{label, start, end}]`.

    Raises ValueError that names file and line: no JSON, a missing field, a label other than P, I
    and O, a span outside the text or not on the borders of its tokens, an id that came before.
    """
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    found: dict[str, Abstract] = {}
    for where, row in json_lines.rows(path, "an abstract of EBM-NLP", _KEYS):
        abstract = _abstract(row, where)
        if abstract.abstract_id in found:
            raise ValueError(f"{where}: id {abstract.abstract_id!r} came before")
        found[abstract.abstract_id] = abstract
    if not found:
        raise ValueError(f"{path}: no abstracts")
    return list(found.values())


def _abstract(row: Mapping[str, Any], where: str) -> Abstract:
    text, spans = row["text"], row["spans"]
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{where}: 'text' holds no text")
    if not isinstance(spans, list):
        raise ValueError(f"{where}: 'spans' is not a list")
    marks = np.zeros(len(text), np.int8)
    for place, span in enumerate(spans):
        label, start, end = _span(span, text, f"{where}, spans[{place}]")
        marks[start:end] = 1 + CLASSES.index(label)
    return Abstract(str(row["id"]), text, marks)


def _span(span: Any, text: str, where: str) -> tuple[str, int, int]:
    if not isinstance(span, Mapping):
        raise ValueError(f"{where}: not a JSON object")
    for key in ("label", "start", "end"):
        if key not in span:
            raise ValueError(f"{where}: {key!r} is missing")
    label, start, end = span["label"], span["start"], span["end"]
    if label not in CLASSES:
        raise ValueError(f"{where}: label {label!r} is not one of {', '.join(CLASSES)}")
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (start, end))
    if not whole or not 0 <= start < end <= len(text):
        raise ValueError(f"{where}: [{start}, {end}) lies outside the text of {len(text)} letters")
    if "text" in span and span["text"] != text[start:end]:
        raise ValueError(f"{where}: the text at [{start}, {end}) is not its {'text'!r}")
    return label, start, end


def split(
    abstracts: Sequence[Abstract], share: float, seed: int
) -> tuple[list[Abstract], list[Abstract]]:
    """Hold out a random share: (training, held out), by id and seed, whatever the order.

    Raises ValueError if one of the two would be empty.
    """
    held = held_names((abstract.abstract_id for abstract in abstracts), share, seed)
    if not 0 < len(held) < len(abstracts):
        raise ValueError(
            f"train.validation_share={share}: of {len(abstracts)} abstracts that holds "
            f"{len(held)} out"
        )
    order = sorted(abstracts, key=lambda abstract: abstract.abstract_id)
    return (
        [abstract for abstract in order if abstract.abstract_id not in held],
        [abstract for abstract in order if abstract.abstract_id in held],
    )


def fingerprint_of(abstracts: Sequence[Abstract]) -> str:
    """Hash texts and labels, so that a run which goes on notices another file."""
    digest = hashlib.blake2b(digest_size=10)
    for abstract in abstracts:
        digest.update(abstract.abstract_id.encode("utf-8", "surrogatepass") + b"\0")
        digest.update(abstract.text.encode("utf-8", "surrogatepass") + b"\0")
        digest.update(abstract.marks.tobytes())
    return digest.hexdigest()
