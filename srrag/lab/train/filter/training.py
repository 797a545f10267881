"""Train a filter's model, and choose settings on held-out questions or by cross-validation.

Workers share each step, and a killed run can resume.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import Parameter

from srrag.algo.classification import auroc
from srrag.lab.train.filter.pairs import (
    FilterSettings,
    FilterTask,
    JudgedPairs,
    folds,
    held_out,
    read_judged,
    task_of,
)
from srrag.lab.train.group import Alone, Group, Trials
from srrag.lab.train.loop import Checkpoints, EpochTraining, shard, trained_weights
from srrag.model.filter import BATCH_TOKENS, load_pair_model
from srrag.model.pair_encoder import scores

Floats = npt.NDArray[np.float64]
POOL_BATCHES = 16
"""Batches whose pairs are sorted by length together, so that a batch holds little padding."""


def run_plain(plain: dict[str, Any], group: Group | None = None) -> dict[str, Any]:
    """Train from and to JSON, for workers elsewhere.

    The result names the file of the weights, and holds the curve by epoch and the log-odds of the
    held-out pairs in their order. Raises ValueError if the file has changed.
    """
    task = task_of(plain)
    pairs = read_training(task.pairs, task.other)
    if pairs.fingerprint != task.fingerprint:
        raise ValueError(f"{task.pairs} has changed since the run began")
    return FilterTraining(task, group or Alone(), pairs, held_pairs(task, pairs)).run()


def read_training(path: str, other: str | None) -> JudgedPairs:
    """The training pairs, without questions that also occur in the other file."""
    pairs = read_judged(Path(path))
    return pairs if other is None else pairs.without_questions_of(read_judged(Path(other)))


def held_pairs(task: FilterTask, pairs: JudgedPairs) -> npt.NDArray[np.bool_]:
    """By pair: whether it is held out of this training."""
    if task.fold >= 0:
        mask: npt.NDArray[np.bool_] = folds(pairs, task.folds, task.split_seed) == task.fold
        return mask
    if task.share == 0:
        return np.zeros(len(pairs), bool)
    return held_out(pairs, task.share, task.split_seed)


class FilterTraining(EpochTraining):
    """The state of one training on one worker."""

    task: FilterTask

    def __init__(
        self, task: FilterTask, group: Group, pairs: JudgedPairs, held: npt.NDArray[np.bool_]
    ) -> None:
        """Load the model and tokenise the pairs."""
        self.settings = task.settings
        self.adds_gradients = not self.settings.shard  # FSDP adds them itself
        torch.manual_seed(task.seed)
        checkpointing = self.settings.checkpointing
        self.model = load_pair_model(task.base, task.device, checkpointing=checkpointing)
        if self.settings.shard:
            shard(self.model.module)
        weights = {n: p for n, p in self.model.module.named_parameters() if p.requires_grad}
        files = Checkpoints(Path(task.state), self.settings.epochs)
        super().__init__(task, group, weights, _optimizer(weights.values(), self.settings), files)
        training, self.held = pairs.select(~held), pairs.select(held)
        self.examples = self.model.examples(training.questions, training.passages)
        self.held_examples = self.model.examples(self.held.questions, self.held.passages)
        self.labels = training.labels
        self.more = {"logits": []}
        self.count_steps()

    def leg(self) -> dict[str, float]:
        """Train an epoch, then score the held-out pairs."""
        self.model.module.train()
        point: dict[str, float] = {"epoch": self.done + 1, "train_loss": self.epoch()}
        logits = self._score()
        if len(logits):
            ones = np.ones((1, len(logits)))
            point["validation_AUROC"] = float(auroc(self.held.labels, logits, ones)[0])
            point["validation_loss"] = _log_loss(self.held.labels, logits)
        self.more = {"logits": logits.tolist()}
        return point

    def plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        """The rows of each batch of an epoch; the same on every worker."""
        rng = np.random.default_rng([self.task.seed, epoch])
        size, order = self.settings.batch, rng.permutation(len(self.examples))
        lengths = np.array([len(ids) for ids, _ in self.examples])
        pool = size * POOL_BATCHES
        pools = [order[i : i + pool] for i in range(0, len(order), pool)]
        ranked = [some[np.argsort(lengths[some], kind="stable")] for some in pools]
        found = [some[i : i + size] for some in ranked for i in range(0, len(some), size)]
        return [found[i] for i in rng.permutation(len(found))]

    def step(self, batch: npt.NDArray[np.int64], number: int) -> tuple[float, int]:
        """Add this worker's share of a batch to the step; returns its summed loss."""
        mine = batch[self.group.rank :: self.group.size]
        # A worker without a pair in this batch runs a step too, because the others wait for it.
        summed = self._loss(mine) if len(mine) else self._loss(batch[:1]) * 0
        # Sharded gradients are averaged over the workers, others are added.
        (summed * (self.group.size if self.settings.shard else 1) / len(batch)).backward()  # type: ignore[no-untyped-call]
        self.move(number)
        return float(summed.detach()), len(batch)

    def _loss(self, rows: npt.NDArray[np.int64]) -> Tensor:
        labels = torch.tensor(self.labels[rows], dtype=torch.float32, device=self.task.device)
        device, bf16 = torch.device(self.task.device).type, self.settings.precision == "bfloat16"
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            losses = self.model.losses([self.examples[row] for row in rows], labels)
        weights = torch.where(labels > 0.5, self.settings.yes_weight, 1.0)
        return (losses * weights).sum()

    def _score(self) -> Floats:
        """Log-odds of the held-out pairs; each worker scores its share, all get them all."""
        self.model.module.eval()
        found = np.zeros(len(self.held_examples))
        # Sharded layers run only when all workers call them together on the same examples.
        mine = slice(None) if self.settings.shard else slice(self.group.rank, None, self.group.size)
        found[mine] = scores(self.held_examples[mine], self.model.logits, BATCH_TOKENS)
        return found if self.settings.shard else self.group.total(found)


def _optimizer(weights: Iterable[Parameter], settings: FilterSettings) -> torch.optim.AdamW:
    """AdamW without weight decay for biases and norms."""
    listed = list(weights)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in listed if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in listed if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=settings.learning_rate)


def _log_loss(labels: Floats, logits: Floats) -> float:
    return float((np.logaddexp(0, logits) - labels * logits).mean())


Result = dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """A training with out-of-sample log-odds, from it or from its cross-validation folds."""

    task: FilterTask
    result: Result
    held: npt.NDArray[np.bool_]
    """By pair: whether it has out-of-sample log-odds."""
    logits: Floats
    """Those log-odds, in the pairs' order."""
    AUROC: float

    @property
    def weights(self) -> dict[str, Tensor]:
        """What was trained."""
        return trained_weights(Path(self.task.state) / self.result["weights"])


@dataclass(frozen=True)
class ChosenSettings:
    """The chosen settings, the comparison behind them, and the trainings of each seed."""

    settings: FilterSettings
    compared: list[dict[str, Any]]
    trained: list[Trained]

    @property
    def best(self) -> int:
        """Index of the training with the highest out-of-sample AUROC; the first of equals."""
        return int(np.argmax([one.AUROC for one in self.trained]))


def choose_and_train(
    pairs: JudgedPairs,
    make: Callable[..., FilterTask],
    candidates: Sequence[FilterSettings],
    seeds: Sequence[int],
    run: Trials,
    num_folds: int,
) -> ChosenSettings:
    """Compare candidates by mean AUROC, then train the best from each seed.

    With folds, each candidate is trained once per fold, and the best is trained on all pairs with
    the log-odds of its folds. Without folds, every training holds out the same questions.
    `make(settings, seed, fold)` makes a task; fold −1 is the held-out share, None all pairs. Raises
    ValueError, before any training, if held-out questions have pairs of one label alone.
    """
    folds = range(num_folds) if num_folds else (-1,)
    tasks = [make(settings, seeds[0], fold) for settings in candidates for fold in folds]
    for task in tasks:
        _check_held(pairs, task)
    results = run.compare(tasks) if num_folds else [run.train(task) for task in tasks]
    found = [_held(pairs, task, one) for task, one in zip(tasks, results, strict=True)]
    parts = [found[i : i + len(folds)] for i in range(0, len(found), len(folds))]
    means = [float(np.mean([one.AUROC for one in some])) for some in parts]
    best = int(np.argmax(means))
    chosen, own = candidates[best], parts[best]
    if num_folds:
        logits, everyone = np.zeros(len(pairs)), np.ones(len(pairs), bool)
        for one in own:
            logits[one.held] = one.logits
        final = [make(chosen, seed, None) for seed in seeds]
        trained = [Trained(t, run.train(t), everyone, logits, means[best]) for t in final]
    else:
        others = [make(chosen, seed, -1) for seed in seeds[1:]]
        trained = [*own, *(_held(pairs, task, run.train(task)) for task in others)]
    compared = [
        _compared(settings, [one.AUROC for one in some])
        for settings, some in zip(candidates, parts, strict=True)
    ]
    return ChosenSettings(chosen, compared, trained)


def _check_held(pairs: JudgedPairs, task: FilterTask) -> None:
    """Raise ValueError if the held-out pairs cannot judge a training."""
    labels = pairs.labels[held_pairs(task, pairs)]
    if not 0 < labels.sum() < len(labels):
        raise ValueError(f"{pairs.path}: the questions held out have pairs of one label alone")


def _held(pairs: JudgedPairs, task: FilterTask, result: Result) -> Trained:
    held = held_pairs(task, pairs)
    logits = np.array(result["logits"])
    area = float(auroc(pairs.labels[held], logits, np.ones((1, len(logits))))[0])
    return Trained(task, result, held, logits, area)


def _compared(settings: FilterSettings, areas: list[float]) -> dict[str, Any]:
    rounded = [round(area, 4) for area in areas]
    return {**dataclasses.asdict(settings), "AUROC": round(float(np.mean(areas)), 4), "of": rounded}
