"""Fine-tune an encoder to label tokens P, I or O; any number of workers share each step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from srrag.algo.token_f1 import CLASSES
from srrag.lab.train.checkpoint import Checkpoints
from srrag.lab.train.encoder_files import load_classifier, tokenizer_file
from srrag.lab.train.group import Alone, Group
from srrag.lab.train.loop import EpochTraining
from srrag.lab.train.tagger.abstracts import Abstract, fingerprint_of, read_abstracts, split
from srrag.lab.train.tagger.batches import IGNORED, Example, make_batches, padded
from srrag.lab.train.tagger.class_bias import choose_lean, token_scores
from srrag.lab.train.tagger.task import TaggerSettings, TaggerTask
from srrag.model.tagger import PieceTokenizer, module_logits, piece_scores, words_of


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


class TaggerTraining(EpochTraining):
    """The state of one training on one worker."""

    def __init__(
        self, task: TaggerTask, group: Group, training: Sequence[Abstract], held: Sequence[Abstract]
    ) -> None:
        """Load the encoder with a new classifier, initialised from the seed."""
        self.settings = task.settings
        torch.manual_seed(task.seed)
        self.model = load_classifier(self.settings.encoder, self.settings.revision)
        set_dropout(self.model, self.settings.dropout)
        torch.nn.Module.to(self.model, torch.device(task.device))
        self.tokenizer = PieceTokenizer(
            tokenizer_file(self.settings.encoder, self.settings.revision)
        )
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
        self.steps = self.settings.epochs * len(self.plan(0))

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
