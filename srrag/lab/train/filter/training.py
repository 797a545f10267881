"""Train a filter's model; workers share each step, and a killed run can resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from srrag.algo.classification import auroc
from srrag.lab.train.checkpoint import Checkpoints
from srrag.lab.train.filter.pairs import JudgedPairs, folds, held_out, read_judged
from srrag.lab.train.filter.settings import FilterTask, task_of
from srrag.lab.train.group import Alone, Group
from srrag.lab.train.schedule import add_gradients, pace, seed_epoch
from srrag.lab.train.sharding import shard
from srrag.model.filter import BATCH_TOKENS, load_pair_model
from srrag.model.pair_model import scores

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


class FilterTraining:
    """The state of one training on one worker."""

    def __init__(
        self, task: FilterTask, group: Group, pairs: JudgedPairs, held: npt.NDArray[np.bool_]
    ) -> None:
        """Load the model and tokenise the pairs."""
        self.task, self.settings, self.group = task, task.settings, group
        torch.manual_seed(task.seed)
        checkpointing = task.settings.checkpointing
        self.model = load_pair_model(task.base, task.device, checkpointing=checkpointing)
        if self.settings.shard:
            shard(self.model.module)
        self.parameters = {n: p for n, p in self.model.module.named_parameters() if p.requires_grad}
        training, self.held = pairs.select(~held), pairs.select(held)
        self.examples = self.model.examples(training.questions, training.passages)
        self.held_examples = self.model.examples(self.held.questions, self.held.passages)
        self.labels = training.labels
        self.optimizer = self._optimizer()
        self.files = Checkpoints(Path(task.state), self.settings.epochs)
        self.epoch, self.curve, self.logits = 0, list[dict[str, float]](), list[float]()
        self.steps = self.settings.epochs * len(self.plan(0))

    def _optimizer(self) -> torch.optim.AdamW:
        # No weight decay for biases and norms.
        matrices = [p for p in self.parameters.values() if p.ndim > 1]
        vectors = [p for p in self.parameters.values() if p.ndim <= 1]
        decay = self.settings.weight_decay
        groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        rate = self.settings.learning_rate
        return torch.optim.AdamW([group for group in groups if group["params"]], lr=rate)

    def run(self) -> dict[str, Any]:
        """Train the epochs that are missing, then score the held-out pairs."""
        self._restore()
        while self.epoch < self.settings.epochs:
            loss = self._epoch()
            self.epoch += 1
            logits = self._score()
            point: dict[str, float] = {"epoch": self.epoch, "train_loss": loss}
            if len(logits):
                ones = np.ones((1, len(logits)))
                point["validation_AUROC"] = float(auroc(self.held.labels, logits, ones)[0])
                point["validation_loss"] = _log_loss(self.held.labels, logits)
            self.curve.append(point)
            self.logits = logits.tolist()
            state = {"epoch": self.epoch, "curve": self.curve, "logits": self.logits}
            self.group.report(point, {**state, "file": self._save()})
        weights = self.files.file(self.epoch).name
        return {"weights": weights, "logits": self.logits, "curve": self.curve}

    def _epoch(self) -> float:
        """Pass over all pairs; returns the mean loss of a pair."""
        self.model.module.train()
        seed_epoch(self.task.seed, self.epoch, self.group.rank)
        plan, total = self.plan(self.epoch), 0.0
        for number, rows in enumerate(plan):
            total += self._step(rows, self.epoch * len(plan) + number)
        return float(self.group.total(np.array([total]))[0]) / len(self.examples)

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

    def _step(self, rows: npt.NDArray[np.int64], step: int) -> float:
        """Add this worker's share of a batch to the step; returns its summed loss."""
        mine = rows[self.group.rank :: self.group.size]
        self.optimizer.zero_grad(set_to_none=False)
        # A worker without a pair in this batch runs a step too, because the others wait for it.
        summed = self._loss(mine) if len(mine) else self._loss(rows[:1]) * 0
        # Sharded gradients are averaged over the workers, others are added.
        (summed * (self.group.size if self.settings.shard else 1) / len(rows)).backward()  # type: ignore[no-untyped-call]
        if not self.settings.shard:  # FSDP adds them itself
            add_gradients(self.parameters.values(), self.group)
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * pace(step, self.steps)
        self.optimizer.step()
        return float(summed.detach())

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

    def _save(self) -> str:
        first = self.group.rank == 0
        return self.files.save(self.epoch, self.parameters, self.optimizer, write=first)

    def _restore(self) -> None:
        saved = self.group.restore()
        if saved is not None:
            self.epoch, self.curve, self.logits = saved["epoch"], saved["curve"], saved["logits"]
            self.files.restore(saved["file"], self.parameters, self.optimizer)


def _log_loss(labels: Floats, logits: Floats) -> float:
    return float((np.logaddexp(0, logits) - labels * logits).mean())
