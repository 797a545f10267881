"""Choose objective and τ on held-out queries, then fit what was chosen to all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.train.betr.fit import BetrSettings, BetrTask, Fit, split_queries
from srrag.train.betr.pair_file import PairFile


@dataclass(frozen=True)
class Fitter:
    """Who does the fits: many candidates at once, and one."""

    compare: Callable[[Sequence[BetrTask]], list[Fit]]
    fit: Callable[[BetrTask], Fit]


@dataclass(frozen=True)
class Outcome:
    """What was chosen and fitted, and to which queries."""

    settings: BetrSettings
    fit: Fit
    fitted: npt.NDArray[np.bool_]
    """By query number: whether the parameters were fitted to it."""
    num_queries: int
    """|Q| of that fit."""
    training: npt.NDArray[np.bool_]
    """By query number: whether it was not held out."""
    held_out: Fit | None = None
    """The fit to the training queries that was chosen on the others; None without validation."""
    compared: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def choose_and_fit(
    file: PairFile, tasks: Sequence[BetrTask], fitter: Fitter, *, refit: bool = True
) -> Outcome:
    """Compare the tasks on the held-out queries; fit the best to all queries if `refit`.

    One task needs no held-out query, and if there are too few to hold one out, none is. Raises
    ValueError if several are to be compared on none, or if holding out leaves none to train on.
    """
    share, seed = tasks[0].share, tasks[0].seed
    training = split_queries(file.query_ids, share, seed)
    distinct, held = len(training), int((~training).sum())
    everyone = np.ones(distinct, bool)
    if not 0 < held < distinct:
        if len(tasks) > 1:
            raise ValueError(
                f"train.validation_share={share} of {distinct} queries holds {held} out, which "
                f"compares nothing; fix train.objective and train.tau, or change the share"
            )
        only = dataclasses.replace(tasks[0], share=0.0)
        return Outcome(only.settings, fitter.fit(only), everyone, only.num_queries, everyone)
    fits = fitter.compare(tasks)
    best = choose(fits)
    task, chosen = tasks[best], fits[best]
    compared = [
        {"objective": t.settings.objective, "tau": t.settings.tau, "loss": f.validation_loss}
        for t, f in zip(tasks, fits, strict=True)
    ]
    if not refit:
        num_queries = task.num_queries - held
        fit, fitted = chosen, training
        return Outcome(task.settings, fit, fitted, num_queries, training, chosen, compared)
    settings = task.settings
    if settings.solver == "adam":
        # As many epochs as the held-out queries let it run.
        settings = dataclasses.replace(settings, epochs=len(chosen.curve), patience=0)
    final = dataclasses.replace(task, settings=settings, share=0.0)
    fit = fitter.fit(final)
    return Outcome(settings, fit, everyone, task.num_queries, training, chosen, compared)


def choose(fits: Sequence[Fit]) -> int:
    """The candidate with the lowest validation loss; the first of equal ones."""
    losses = [np.inf if fit.validation_loss is None else fit.validation_loss for fit in fits]
    return int(np.argmin(losses))
