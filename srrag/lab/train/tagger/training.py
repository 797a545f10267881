"""Fine-tune an encoder to label tokens P, I or O; any number of workers share each step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from srrag.algo.classification import CLASSES, Counts, Labels, token_counts, token_figures
from srrag.lab.train.group import Alone, Group
from srrag.lab.train.loop import Checkpoints, EpochTraining
from srrag.lab.train.tagger.task import (
    Abstract,
    TaggerSettings,
    TaggerTask,
    fingerprint_of,
    read_abstracts,
    split,
)
from srrag.model.encoder import check_model
from srrag.model.passes import budgeted
from srrag.model.read_weights import TOKENIZER, encoder_folder, load_transformer
from srrag.model.tagger import (
    Floats,
    Ints,
    Pieces,
    PieceTokenizer,
    Words,
    module_logits,
    piece_scores,
    words_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
            macro = [token_figures(one)["token_macro_F1"] for one in counts]
            if max(macro) > best:
                best = max(macro)
                lean = tried[macro.index(best)]
    return tuple(lean), token_figures(total(_counts(scores, gold, lean)))


def _counts(scores: Floats, gold: Labels, lean: list[float]) -> npt.NDArray[np.float64]:
    found = (scores + np.array([0.0, *lean], np.float32)).argmax(1)
    return token_counts(gold, found.astype(np.int8))


POOL_WINDOWS = 64
"""Windows that are sorted by length together, so that a batch holds little padding."""
IGNORED = -100


class Example(NamedTuple):
    """A window of an abstract: ids with special tokens, and the class of each (or IGNORED)."""

    ids: Ints
    labels: Ints


def make_batches(
    texts: Sequence[tuple[Pieces, Ints]],
    tokenizer: PieceTokenizer,
    window: int,
    batch_tokens: int,
    rng: np.random.Generator,
) -> list[list[Example]]:
    """Cut texts with the class of each piece into windows, in batches of so many pieces at most."""
    examples = [
        example for some, labels in texts for example in _cut(some, labels, tokenizer, window, rng)
    ]
    order = rng.permutation(len(examples))
    found = [
        [examples[pool[i]] for i in some]
        for pool in (order[i : i + POOL_WINDOWS] for i in range(0, len(order), POOL_WINDOWS))
        for some in budgeted([len(examples[i].ids) for i in pool], batch_tokens)
    ]
    return [found[i] for i in rng.permutation(len(found))]


def _cut(
    some: Pieces, labels: Ints, tokenizer: PieceTokenizer, window: int, rng: np.random.Generator
) -> Iterator[Example]:
    """Cut a text into windows of about equal size, at other places in each epoch."""
    size = len(some.ids)
    count = max(1, round(size / window + 0.2))
    shift = (rng.random() - 0.5) * size / count
    cuts = [0, *(round(size * i / count + shift) for i in range(1, count)), size]
    lead, tail = len(tokenizer.before), len(tokenizer.after)
    for start, stop in pairwise(cuts):
        if start < stop:
            marked = np.pad(labels[start:stop], (lead, tail), constant_values=IGNORED)
            yield Example(tokenizer.enclosed(some.ids[start:stop]), marked)


def padded(examples: Sequence[Example]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and labels of a batch, each (examples, longest)."""
    shape = len(examples), max(len(example.ids) for example in examples)
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    labels: npt.NDArray[np.int64] = np.full(shape, IGNORED, np.int64)
    for row, example in enumerate(examples):
        size = len(example.ids)
        ids[row, :size], mask[row, :size], labels[row, :size] = example.ids, 1, example.labels
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(labels)


def run_plain(plain: dict[str, Any], group: Group | None = None) -> dict[str, Any]:
    """Train from and to JSON, for workers elsewhere.

    The result names the file of the weights, the lean chosen on the held-out abstracts, their
    figures with it, and the curve by epoch. Raises ValueError if the file has changed.
    """
    task = TaggerTask(**{**plain, "settings": TaggerSettings(**plain["settings"])})
    abstracts = read_abstracts(Path(task.crowd))
    if fingerprint_of(abstracts) != task.fingerprint:
        raise ValueError(f"{task.crowd} has changed since the run began")
    training, held = split(abstracts, task.share, task.split_seed)
    return TaggerTraining(task, group or Alone(), training, held).run()


def base_folder(settings: TaggerSettings) -> Path:
    """The folder of the encoder that training begins at."""
    return encoder_folder(settings.encoder, settings.revision, "train.encoder")


def load_classifier(settings: TaggerSettings) -> PreTrainedModel:
    """The encoder with a new linear map on top, to none and CLASSES, drawn by torch's seed."""
    labels = ("none", *CLASSES)
    check_model(settings.encoder, settings.revision)
    return load_transformer(
        base_folder(settings),
        f"train.encoder={settings.encoder}",
        "AutoModelForTokenClassification",
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )


class TaggerTraining(EpochTraining):
    """The state of one training on one worker."""

    def __init__(
        self, task: TaggerTask, group: Group, training: Sequence[Abstract], held: Sequence[Abstract]
    ) -> None:
        """Load the encoder with a new classifier, initialised from the seed."""
        self.settings = task.settings
        torch.manual_seed(task.seed)
        self.model = load_classifier(self.settings)
        set_dropout(self.model, self.settings.dropout)
        torch.nn.Module.to(self.model, torch.device(task.device))
        self.tokenizer = PieceTokenizer(base_folder(self.settings) / TOKENIZER)
        self._check_positions()
        pieces = self.tokenizer.pieces([abstract.text for abstract in training])
        self.texts = [
            (some, abstract.marks[some.start].astype(np.int64))
            for some, abstract in zip(pieces, training, strict=True)
        ]
        self.held = held[group.rank :: group.size]
        self.held_pieces = self.tokenizer.pieces([abstract.text for abstract in self.held])
        learning = unfrozen(self.model, self.settings.frozen_layers)
        weights = dict(self.model.named_parameters())
        files = Checkpoints(Path(task.state), self.settings.epochs)
        super().__init__(task, group, weights, _optimizer(learning, self.settings), files)
        self.count_steps()

    def _check_positions(self) -> None:
        longest = 2 * self.settings.window
        known = getattr(self.model.config, "max_position_embeddings", None)
        if known is not None and longest > known:
            raise ValueError(
                f"train.window={self.settings.window}: windows reach twice that while training, "
                f"and {self.settings.encoder} has {known} positions"
            )

    def leg(self) -> dict[str, float]:
        """Train an epoch, and choose the lean."""
        self.model.train()
        loss = self.epoch()
        lean, held_out = self._score()
        self.more = {"lean": list(lean), "held_out": held_out}
        return {"epoch": self.done + 1, "train_loss": loss, **held_out}

    def plan(self, epoch: int) -> list[list[Example]]:
        """The batches of an epoch; the same on every worker."""
        rng = np.random.default_rng([self.task.seed, epoch])
        return make_batches(
            self.texts, self.tokenizer, self.settings.window, self.settings.batch_tokens, rng
        )

    def step(self, batch: list[Example], number: int) -> tuple[float, int]:
        """Add this worker's share of a batch to the step; returns its summed loss."""
        count = sum(int((example.labels != IGNORED).sum()) for example in batch)
        mine = batch[self.group.rank :: self.group.size]
        loss = self._loss(mine) if mine else None
        if loss is not None:
            (loss / count).backward()  # type: ignore[no-untyped-call]
        self.fill_gradients()
        self.move(number)
        return 0.0 if loss is None else float(loss.detach()), count

    def _loss(self, examples: Sequence[Example]) -> Tensor:
        ids, mask, labels = (part.to(self.model.device) for part in padded(examples))
        bf16 = self.settings.precision == "bfloat16"
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=bf16):
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        flat = logits.float().flatten(0, 1)
        return F.cross_entropy(flat, labels.flatten(), ignore_index=IGNORED, reduction="sum")

    def _score(self) -> tuple[tuple[float, ...], dict[str, float]]:
        """The lean with the best figures on the held-out abstracts, and these figures."""
        self.model.train(False)
        reading, logits = self.settings.reading(), module_logits(self.model)
        found = piece_scores(self.held_pieces, self.tokenizer, reading, logits)
        scores = [
            token_scores(abstract, words_of(some, one))
            for abstract, some, one in zip(self.held, self.held_pieces, found, strict=True)
        ]
        # A worker may have none, if there are more workers than abstracts.
        nothing = np.zeros((0, 1 + len(CLASSES)), np.float32)
        gold = [np.zeros(0, np.int8), *(abstract.labels for abstract in self.held)]
        return choose_lean(
            np.concatenate([nothing, *scores]), np.concatenate(gold), self.group.total
        )


def _optimizer(
    learning: Mapping[str, torch.nn.Parameter], settings: TaggerSettings
) -> torch.optim.AdamW:
    """AdamW, with a faster rate for the new classifier."""
    heads = {name: name.startswith("classifier") for name in learning}
    groups = [
        {"params": [p for n, p in learning.items() if heads[n] == head], "factor": factor}
        for head, factor in ((False, 1.0), (True, settings.head_factor))
    ]
    rate, decay = settings.learning_rate, settings.weight_decay
    return torch.optim.AdamW(groups, lr=rate, weight_decay=decay, fused=True)


_LAYER = re.compile(r"\.layers?\.(\d+)\.")


def set_dropout(model: torch.nn.Module, share: float) -> None:
    """Drop this share of activations while training, everywhere in a model."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share


def unfrozen(model: torch.nn.Module, frozen_layers: int) -> dict[str, torch.nn.Parameter]:
    """Freeze embeddings and the first layers; returns the trainable parameters by name.

    Raises ValueError if no layer would be left.
    """
    names = dict(model.named_parameters())
    layers = {int(found[1]) for name in names if (found := _LAYER.search(name))}
    if frozen_layers and frozen_layers >= len(layers):
        raise ValueError(f"train.frozen_layers={frozen_layers}: the encoder has {len(layers)}")
    for name, parameter in names.items():
        found = _LAYER.search(name)
        below = int(found[1]) < frozen_layers if found else "embedding" in name
        parameter.requires_grad_(not (frozen_layers and below))
    return {name: parameter for name, parameter in names.items() if parameter.requires_grad}
