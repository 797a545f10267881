"""A token classifier from its folder: runs of P, I and O in texts of any length."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from srrag.algo.classification import CLASSES
from srrag.core.provenance import Fitted, read_fitted
from srrag.model.encoder import BACKENDS, once
from srrag.model.network import is_plain_bert, pack, run_any
from srrag.model.passes import budgeted, in_passes
from srrag.model.read_weights import load_transformer
from srrag.storage.atomic_write import read_json
from srrag.storage.manifest import check_sealed
from srrag.storage.mirror import pull_build

FACTS = "tagger.json"
BATCH_TOKENS = 2048
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Logits = Callable[[Sequence[Ints]], list[Tensor]]
"""Ids of texts sorted by length → per run of equal lengths (texts, L, classes)."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Settings for reading texts, which belong to the trained model like its weights."""

    window: int = 192
    """Pieces a forward pass sees of a text, special tokens left out."""
    context: int = 24
    """Pieces at the edges of a window whose labels the next window decides."""
    lean: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Added to the log-odds of P, I and O over none, in nats."""

    def __post_init__(self) -> None:
        """Raise ValueError for a window that its context fills, or a lean of other classes."""
        object.__setattr__(self, "lean", tuple(float(value) for value in self.lean))
        if len(self.lean) != len(CLASSES):
            raise ValueError(f"lean {self.lean} is not a number each of {', '.join(CLASSES)}")
        if not 0 <= 2 * self.context < self.window:
            raise ValueError(f"window {self.window} and context {self.context} leave no middle")


class TaggedRun(NamedTuple):
    """Neighbouring words with one label: "P", "I" or "O" of text[start:end], and its confidence."""

    label: str
    start: int
    end: int
    confidence: float


class Pieces(NamedTuple):
    """A text's pieces of words: ids, the word each belongs to, its first and last character."""

    ids: Ints
    word: Ints
    start: Ints
    end: Ints


class PieceTokenizer:
    """A fast tokenizer that tells the word of each piece."""

    def __init__(self, path: Path) -> None:
        """Read tokenizer.json; raises ValueError that names it."""
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise ValueError(f"{path}: {str(error).splitlines()[0]}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        ends = self._tokenizer.encode("")
        middle = self._tokenizer.encode("a", add_special_tokens=False).ids
        whole = self._tokenizer.encode("a").ids
        lead = next(i for i in range(len(whole)) if whole[i : i + len(middle)] == middle)
        self.before, self.after = ends.ids[:lead], ends.ids[lead:]

    def pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """The pieces of each text, uncut, special tokens left out."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            Pieces(
                np.asarray(one.ids, np.int64),
                np.asarray(one.word_ids, np.int64),
                *np.asarray(one.offsets, np.int64).reshape(-1, 2).T,
            )
            for one in found
        ]

    def enclosed(self, ids: Ints) -> Ints:
        """A window with its special tokens."""
        return np.concatenate([self.before, ids, self.after]).astype(np.int64)


class LoadedTagger:
    """A tagger in memory; its methods may be called from several threads."""

    def __init__(self, folder: Path, backend: str, revision: str | None = None) -> None:
        """Check every file's sha256 and load; raises ValueError that names the file."""
        self.revision = check_sealed(folder, revision)
        self.reading = read_reading(folder)
        self.tokenizer = PieceTokenizer(folder / "tokenizer.json")
        self._logits = _read_logits(folder, backend)

    def runs(self, texts: Sequence[str]) -> list[list[TaggedRun]]:
        """Runs of each text in order. A text's runs do not depend on its neighbours."""
        pieces = self.tokenizer.pieces(texts)
        found = piece_scores(pieces, self.tokenizer, self.reading, self._logits)
        return [
            runs_of(text, words_of(some, scores), self.reading.lean)
            for text, some, scores in zip(texts, pieces, found, strict=True)
        ]


class ReadWindow(NamedTuple):
    """Pieces [start, stop) of a text are read together; [first, last) get their labels so."""

    start: int
    stop: int
    first: int
    last: int


def windows(num_pieces: int, reading: Reading) -> Iterator[ReadWindow]:
    """Cut a text into windows of about equal size that overlap by the context on both sides."""
    size, edge = reading.window, reading.context
    if num_pieces <= size:
        if num_pieces:
            yield ReadWindow(0, num_pieces, 0, num_pieces)
        return
    count = -(-(num_pieces - 2 * edge) // (size - 2 * edge))
    cuts = [round(edge + (num_pieces - 2 * edge) * i / count) for i in range(count + 1)]
    cuts[0], cuts[-1] = 0, num_pieces
    for first, last in pairwise(cuts):
        yield ReadWindow(max(0, first - edge), min(num_pieces, last + edge), first, last)


def piece_scores(
    texts: Sequence[Pieces], tokenizer: PieceTokenizer, reading: Reading, logits: Logits
) -> list[Floats]:
    """Log-probabilities (pieces, 1 + classes) of the pieces of each text."""
    width, lead = 1 + len(CLASSES), len(tokenizer.before)
    scores = [np.zeros((len(text.ids), width), np.float32) for text in texts]
    places = [
        (number, window)
        for number, text in enumerate(texts)
        for window in windows(len(text.ids), reading)
    ]

    def one(some: Ints) -> None:
        chosen = [places[i] for i in some]
        ids = [tokenizer.enclosed(texts[n].ids[w.start : w.stop]) for n, w in chosen]
        with torch.inference_mode():
            rows = [row for group in logits(ids) for row in F.log_softmax(group.float(), -1)]
        for (number, window), row in zip(chosen, rows, strict=True):
            inner = row[lead + window.first - window.start : lead + window.last - window.start]
            scores[number][window.first : window.last] = inner.cpu().numpy()

    sizes = [window.stop - window.start for _, window in places]
    in_passes(list(budgeted(sizes, BATCH_TOKENS)), one)
    return scores


class Words(NamedTuple):
    """A text's words: first and last character, and log-probabilities (words, 1 + classes)."""

    start: Ints
    end: Ints
    scores: Floats


def words_of(pieces: Pieces, scores: Floats) -> Words:
    """Give each word the mean of its pieces' log-probabilities."""
    if not len(pieces.ids):
        return Words(pieces.start, pieces.end, scores)
    begins = np.flatnonzero(np.diff(pieces.word, prepend=-1))
    counts = np.diff(begins, append=len(pieces.ids))
    mean = np.asarray(np.add.reduceat(scores, begins, axis=0) / counts[:, None], np.float32)
    return Words(pieces.start[begins], pieces.end[begins + counts - 1], mean)


def runs_of(text: str, words: Words, lean: Sequence[float]) -> list[TaggedRun]:
    """Label each word, and join neighbours of one label within a line.

    The confidence of a run is the mean probability of its label over its words.
    """
    if not len(words.start):
        return []
    scores = words.scores + np.array([0.0, *lean], np.float32)
    labels = scores.argmax(1)
    sure = np.exp(scores - scores.max(1, keepdims=True))
    sure = sure[np.arange(len(labels)), labels] / sure.sum(1)
    change = np.flatnonzero(np.diff(labels, prepend=-1))
    found: list[TaggedRun] = []
    for a, b in zip(change.tolist(), [*change[1:].tolist(), len(labels)], strict=True):
        if label := CLASSES[labels[a] - 1] if labels[a] else "":
            found.extend(_lines(text, label, words.start[a:b], words.end[a:b], sure[a:b]))
    return found


def _lines(text: str, label: str, start: Ints, end: Ints, sure: Floats) -> Iterator[TaggedRun]:
    """Cut a run where a line ends between two of its words."""
    first = 0
    for place in range(1, len(start) + 1):
        if place == len(start) or "\n" in text[end[place - 1] : start[place]]:
            confidence = round(float(sure[first:place].mean()), 3)
            yield TaggedRun(label, int(start[first]), int(end[place - 1]), confidence)
            first = place


def read_reading(folder: Path) -> Reading:
    """Read tagger.json; raises ValueError that names the file and the field."""
    path = pull_build(folder) / FACTS
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    stated = read_json(path)
    try:
        if stated["classes"] != list(CLASSES):
            raise ValueError(f"classes {stated['classes']} are not {', '.join(CLASSES)}")
        return Reading(**stated["reading"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def tagger_fitted(folder: Path) -> Fitted:
    """Read from tagger.json which abstracts the tagger was trained on."""
    path = pull_build(folder) / FACTS
    return read_fitted(read_json(path), "tagger", path)


def reading_json(reading: Reading) -> dict[str, Any]:
    """What `read_reading` reads."""
    return {"classes": list(CLASSES), "reading": asdict(reading)}


def _read_logits(folder: Path, backend: str) -> Logits:
    if backend not in BACKENDS:
        raise ValueError(f"mentions.backend={backend}: one of {', '.join(BACKENDS)}")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    if not is_plain_bert(config):
        return _any_model(folder, config, backend)
    weights = load_file(folder / "model.safetensors")
    head, bias = weights.pop("classifier.weight"), weights.pop("classifier.bias")
    forward = pack(weights, config, backend)
    return lambda ids: [F.linear(hidden.float(), head, bias) for hidden in forward(ids)]


def _any_model(folder: Path, config: dict[str, Any], backend: str) -> Logits:
    """Run an encoder that is no plain BERT by transformers, one pass a run of equal lengths."""
    if backend == "torch-int8":
        raise ValueError(
            f"backend 'torch-int8' needs a BERT-shaped model; {folder} is "
            f"{config.get('model_type')!r}"
        )
    dtype = torch.bfloat16 if backend == "torch-bf16" else torch.float32
    kind = "AutoModelForTokenClassification"
    module: torch.nn.Module = load_transformer(folder, str(folder), kind, dtype=dtype)
    return module_logits(module.eval())


def module_logits(model: Any) -> Logits:
    """Run a token classifier of transformers without padding: a pass a run of equal lengths."""
    return lambda ids: run_any(model, ids, "logits")


@once
def load_tagger(folder: Path, backend: str, revision: str | None = None) -> LoadedTagger:
    """Return the tagger of a folder, read once per process."""
    return LoadedTagger(folder, backend, revision)
