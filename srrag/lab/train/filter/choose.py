"""Choose settings on held-out questions or by cross-validation, then train the choice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from srrag.algo.classification import auroc
from srrag.lab.train.checkpoint import trained_weights
from srrag.lab.train.filter.pairs import JudgedPairs
from srrag.lab.train.filter.settings import FilterSettings, FilterTask
from srrag.lab.train.filter.training import held_pairs
from srrag.lab.train.group import Trials

Floats = npt.NDArray[np.float64]
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
    `make(settings, seed, fold)` makes a task; fold −1 is the held-out share, None all pairs.
    """
    folds = range(num_folds) if num_folds else (-1,)
    tasks = [make(settings, seeds[0], fold) for settings in candidates for fold in folds]
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


def _held(pairs: JudgedPairs, task: FilterTask, result: Result) -> Trained:
    held = held_pairs(task, pairs)
    logits = np.array(result["logits"])
    labels = pairs.labels[held]
    if not 0 < labels.sum() < len(labels):
        raise ValueError(f"{pairs.path}: the questions held out have pairs of one label alone")
    area = float(auroc(labels, logits, np.ones((1, len(logits))))[0])
    return Trained(task, result, held, logits, area)


def _compared(settings: FilterSettings, areas: list[float]) -> dict[str, Any]:
    rounded = [round(area, 4) for area in areas]
    return {**dataclasses.asdict(settings), "AUROC": round(float(np.mean(areas)), 4), "of": rounded}
