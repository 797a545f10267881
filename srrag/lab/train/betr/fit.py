"""Fit BETR to pairs: train-validation split, fit, choice by validation, draws and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.algo.betr import (
    GRADES,
    Draws,
    Floats,
    Kind,
    Objective,
    Pairs,
    biases,
    draw,
    intervals,
    log_likelihood,
    solve_exact,
)
from srrag.algo.classification import held_names
from srrag.lab.train.betr.pair_file import read_pairs
from srrag.lab.train.group import Alone, Group, TrainingTask, check_settings


@dataclass(frozen=True, kw_only=True)
class BetrSettings:
    """Settings of a fit of BETR; `sigma_a` is that of SR-RAG, Table S3."""

    objective: Kind = "posterior"
    tau: float = 1.0
    sigma_a: float = 5.0

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        choices = {"objective": ("paper", "posterior")}
        check_settings(self, positive=("tau", "sigma_a"), choices=choices)

    def to(self, num_queries: int) -> Objective:
        """The objective for |Q| queries."""
        return Objective(
            kind=self.objective, num_queries=num_queries, tau=self.tau, sigma_a=self.sigma_a
        )


@dataclass(frozen=True)
class Fit:
    """Fitted parameters, the objective's value, and its distance from the optimum."""

    theta: list[float]
    objective: float
    gap: float
    validation_loss: float | None

    @property
    def a(self) -> float:
        """The scale of the reranker's score."""
        return float(np.exp(self.theta[0]))

    @property
    def u(self) -> dict[str, float]:
        """The bias of each grade."""
        return by_grade(biases(np.array(self.theta[1:])))


def by_grade(values: Any) -> dict[str, Any]:
    """A value for each grade, as a mapping."""
    return dict(zip(GRADES, np.asarray(values).tolist(), strict=True))


def split_queries(query_ids: Sequence[str], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """True by query index for training queries; a random `share`, rounded, is held out.

    The split depends on the query ids and the seed, not on the order of the rows.
    """
    held = held_names(query_ids, share, seed)
    return np.array([name not in held for name in query_ids], bool)


def fit(
    pairs: Pairs,
    validation: Pairs | None,
    settings: BetrSettings,
    num_queries: int,
    group: Group | None = None,
) -> Fit:
    """Fit on this worker's pairs; all workers get the same result. `num_queries` is |Q| of all.

    All pairs of a query must be with one worker.
    """
    group = group or Alone()
    sizes = np.array([pairs.num_queries, validation.num_queries if validation else 0], float)
    run = _Run(pairs, validation, settings.to(num_queries), group, group.total(sizes))
    return run.solve()


@dataclass(frozen=True)
class _Run:
    pairs: Pairs
    validation: Pairs | None
    objective: Objective
    group: Group
    sizes: Floats
    """Queries that have pairs, over all workers: training and validation."""

    def evaluate(self, theta: Floats) -> tuple[float, Floats, Floats]:
        return self.objective.evaluate(theta, self.pairs, self.group.total)

    def solve(self) -> Fit:
        optimum = solve_exact(self.evaluate)
        value, held = self.evaluate(optimum.theta)[0], self.validation
        loss = None if held is None else self.loss(optimum.theta, held, self.sizes[1])
        return Fit(optimum.theta.tolist(), value, optimum.gain, loss)

    def loss(self, theta: Floats, pairs: Pairs, num_queries: float) -> float:
        return -log_likelihood(theta, pairs, self.group.total)[0] / max(1.0, float(num_queries))


@dataclass(frozen=True, kw_only=True)
class BetrTask(TrainingTask):
    """One fit: the file, the share of it, and the settings."""

    places = ("pairs", *TrainingTask.places)
    pairs: str
    settings: BetrSettings
    num_queries: int
    share: float
    """Share of the queries held out for validation; 0 fits to all of them."""


def run_task(task: BetrTask, group: Group | None = None) -> Fit:
    """Run one fit on this worker's share of the queries, every `size`-th from its rank on.

    Raises ValueError if the file has changed since the task was made.
    """
    group = group or Alone()
    file = read_pairs(task.pairs)
    if file.fingerprint != task.fingerprint:
        raise ValueError(f"{task.pairs} has changed since the run began")
    mine = np.arange(len(file.query_ids)) % group.size == group.rank
    if task.share == 0:
        return fit(file.pairs.select(mine), None, task.settings, task.num_queries, group)
    training = split_queries(file.query_ids, task.share, task.seed)
    num_queries = task.num_queries - int((~training).sum())
    train, held = file.pairs.select(training & mine), file.pairs.select(~training & mine)
    return fit(train, held, task.settings, num_queries, group)


def run_plain(plain: dict[str, Any], group: Group | None = None) -> dict[str, Any]:
    """`run_task` from and to JSON, for workers elsewhere."""
    task = BetrTask(**{**plain, "settings": BetrSettings(**plain["settings"])})
    return asdict(run_task(task, group))


@dataclass(frozen=True)
class Certainty:
    """The optimum of `posterior` at one τ with its intervals, for either objective."""

    fit: Fit
    draws: Draws
    level: float
    a: tuple[float, float]
    u: Floats
    """(5, 2)"""


def certainty(
    pairs: Pairs,
    settings: BetrSettings,
    num_queries: int,
    *,
    level: float,
    num_draws: int,
    seed: int,
) -> Certainty:
    """Intervals of a and of each u_t, from `posterior` whatever objective was chosen."""
    exact = BetrSettings(objective="posterior", tau=settings.tau, sigma_a=settings.sigma_a)
    found = fit(pairs, None, exact, num_queries)
    draws = draw(
        np.array(found.theta), pairs, exact.to(num_queries), num_draws=num_draws, seed=seed
    )
    return Certainty(found, draws, level, *intervals(draws, level))
