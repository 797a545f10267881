"""Choose objective and τ on held-out queries, then fit the choice to all queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.lab.train.betr.fit import BetrSettings, BetrTask, Fit, split_queries
from srrag.lab.train.betr.pair_file import PairFile


@dataclass(frozen=True)
class Fitter:
    """Runs fits: many candidates at once, or one."""

    compare: Callable[[Sequence[BetrTask]], list[Fit]]
    fit: Callable[[BetrTask], Fit]


@dataclass(frozen=True)
class FitOutcome:
    """The chosen settings, fitted to all queries, and the split that they were chosen on."""

    settings: BetrSettings
    fit: Fit
    training: npt.NDArray[np.bool_]
    """By query index: whether the query was in the training split."""
    held_out: Fit | None = None
    """The chosen fit to the training queries alone; None without validation."""
    compared: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def choose_and_fit(file: PairFile, tasks: Sequence[BetrTask], fitter: Fitter) -> FitOutcome:
    """Compare the tasks on the held-out queries, and fit the best to all queries.

    A single task needs no held-out queries; with too few queries, none are held out. Raises
    ValueError if several tasks have no held-out queries to compare on, or if no query is left to
    train on.
    """
    share, seed = tasks[0].share, tasks[0].seed
    training = split_queries(file.query_ids, share, seed)
    distinct, held = len(training), int((~training).sum())
    if not 0 < held < distinct:
        if len(tasks) > 1:
            raise ValueError(
                f"train.validation_share={share} of {distinct} queries holds {held} out, which "
                f"compares nothing; fix train.objective and train.tau, or change the share"
            )
        only = dataclasses.replace(tasks[0], share=0.0)
        return FitOutcome(only.settings, fitter.fit(only), np.ones(distinct, bool))
    fits = fitter.compare(tasks)
    best = choose(fits)
    task, chosen = tasks[best], fits[best]
    compared = [
        {"objective": t.settings.objective, "tau": t.settings.tau, "loss": f.validation_loss}
        for t, f in zip(tasks, fits, strict=True)
    ]
    fit = fitter.fit(dataclasses.replace(task, share=0.0))
    return FitOutcome(task.settings, fit, training, chosen, compared)


def choose(fits: Sequence[Fit]) -> int:
    """The candidate with the lowest validation loss; the first of equal ones."""
    losses = [np.inf if fit.validation_loss is None else fit.validation_loss for fit in fits]
    return int(np.argmin(losses))
