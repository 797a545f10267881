"""Fit BETR's parameters to a file of pairs: choose on held-out queries, fit, write and sum up."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.algo.betr import GRADES, query_losses
from srrag.algo.significance import bootstrap_interval
from srrag.core.errors import UsageError, reading
from srrag.core.figures import measured, unmeasured
from srrag.core.provenance import KEY, fitted_on, unknown
from srrag.lab.experiment.running import trials
from srrag.lab.train.betr.fit import (
    BetrSettings,
    BetrTask,
    Certainty,
    Fit,
    by_grade,
    certainty,
    run_plain,
    split_queries,
)
from srrag.lab.train.betr.pair_file import Origin, PairFile, read_pairs
from srrag.lab.train.group import Trials
from srrag.runner.progress import say
from srrag.runner.runner import Runner
from srrag.storage.atomic_write import commit_json


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


def choose_and_fit(file: PairFile, tasks: Sequence[BetrTask], run: Trials) -> FitOutcome:
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
        return FitOutcome(only.settings, Fit(**run.train(only)), np.ones(distinct, bool))
    fits = [Fit(**each) for each in run.compare(tasks)]
    best = choose(fits)
    task, chosen = tasks[best], fits[best]
    compared = [
        {"objective": t.settings.objective, "tau": t.settings.tau, "loss": f.validation_loss}
        for t, f in zip(tasks, fits, strict=True)
    ]
    final = dataclasses.replace(task, share=0.0)
    return FitOutcome(task.settings, Fit(**run.train(final)), training, chosen, compared)


def choose(fits: Sequence[Fit]) -> int:
    """The candidate with the lowest validation loss; the first of equal ones."""
    losses = [np.inf if fit.validation_loss is None else fit.validation_loss for fit in fits]
    return int(np.argmin(losses))


def write_report(
    out: Path,
    fit: Fit,
    certain: Certainty,
    settings: BetrSettings,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Write betr.json into `out`; returns its content."""
    stated = {**betr_json(fit, certain, settings), **facts}
    commit_json(out / "betr.json", stated, sealed=True)
    return stated


def betr_json(fit: Fit, certain: Certainty, settings: BetrSettings) -> dict[str, Any]:
    """Parameters and intervals as JSON. The intervals are those of `posterior` at the same τ."""
    odds = np.exp(certain.u)
    return {
        "parameters": {
            "a": fit.a,
            "u": fit.u,
            "alpha": fit.theta[0],
            "delta": dict(zip(GRADES[1:], fit.theta[1:], strict=True)),
            "odds_ratio": by_grade(np.exp(list(fit.u.values()))),
        },
        "settings": vars(settings),
        "objective": fit.objective,
        "solver_gap": fit.gap,
        "posterior": {"a": certain.fit.a, "u": certain.fit.u, "tau": settings.tau},
        "intervals": {
            "of": "posterior",
            "level": certain.level,
            "num_draws": len(certain.draws.theta),
            "a": list(certain.a),
            "u": by_grade(certain.u),
            "odds_ratio": by_grade(odds),
        },
    }


def table_1(fit: Fit, certain: Certainty) -> str:
    """Table 1 of SR-RAG as Markdown, with intervals."""
    share = f"{100 * certain.level:g} %"
    of = "interval of the odds ratio (posterior)"
    lines = [
        f"| Grade | u_t | odds ratio | {share} {of} | Δ from prev. |",
        "|---|---|---|---|---|",
    ]
    for place, (grade, u) in enumerate(fit.u.items()):
        low, high = np.exp(certain.u[place])
        step = f"{fit.theta[place]:.4f}" if place else "—"
        lines.append(f"| {grade} | {u:.4f} | {np.exp(u):.4f} | {low:.4f} – {high:.4f} | {step} |")
    low, high = certain.a
    lines += ["", f"a = {fit.a:.4f}, {share} interval (posterior) {low:.4f} – {high:.4f}", ""]
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class PairFit:
    """Settings of a fit to pairs: the candidates, the split that they are compared on, the rest.

    `num_queries` is |Q|, with the queries that have no pair (None: the file's), `reranker` names
    the scores of a file that does not say, `workers` above 0 fit on Ray. Raises ValueError that
    names the setting at fault.
    """

    candidates: Sequence[BetrSettings]
    num_queries: int | None = None
    reranker: str | None = None
    validation_share: float = 0.2
    level: float = 0.9
    draws: int = 2000
    seed: int = 42
    workers: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"train.validation_share={self.validation_share} is outside 0…1")
        if not 0 < self.level < 1:
            raise ValueError(f"train.level={self.level} is outside 0…1")


SETTINGS = tuple(each.name for each in dataclasses.fields(PairFit) if each.name != "candidates")


def candidates(objective: Any, tau: Any, sigma_a: Any) -> list[BetrSettings]:
    """Every objective with every τ (each a value or a list); ValueError names the setting."""
    objectives, taus = (each if isinstance(each, list) else [each] for each in (objective, tau))
    found = [
        BetrSettings(objective=o, tau=t + 0.0 if isinstance(t, int) else t, sigma_a=sigma_a)
        for o, t in itertools.product(objectives, taus)
    ]
    if not found:
        raise ValueError("train.objective, train.tau: at least one of each is needed")
    return found


def fit_pairs(
    pairs: Path, out: Path, settings: PairFit, runner: Runner, command: str
) -> dict[str, Any]:
    """Choose on held-out queries, fit, and write betr.json; returns the figures of the job."""
    with reading(pairs):
        file = read_pairs(pairs)
    facts = _described(file, settings, command)
    tasks = [_task(settings, file, facts["num_queries"], each, out) for each in settings.candidates]
    outcome = choose_and_fit(file, tasks, trials(run_plain, runner, settings.workers, 0))
    certain = _intervals(settings, file, outcome, facts["num_queries"])
    parts = {"share": settings.validation_share, "seed": settings.seed}
    facts |= {
        "split": {**_split_counts(outcome), **parts},
        "candidates": outcome.compared,
        "command": command,
    }
    stated = write_report(out, outcome.fit, certain, outcome.settings, facts)
    say(table_1(outcome.fit, certain))
    return _summary(outcome, stated) | {"metrics": {"validation_loss": _loss(file, outcome)}}


def _described(file: PairFile, settings: PairFit, command: str) -> dict[str, Any]:
    """Describe the pairs for betr.json; raises UsageError for a |Q| below the number of queries."""
    origin, distinct = file.origin, len(file.query_ids)
    known = origin.num_queries if origin else distinct
    num_queries = known if settings.num_queries is None else settings.num_queries
    if isinstance(num_queries, bool) or not isinstance(num_queries, int) or num_queries < distinct:
        raise UsageError(f"train.num_queries={num_queries}: the pairs are of {distinct} queries")
    return {
        "reranker": settings.reranker or (origin.reranker if origin else None),
        "num_queries": num_queries,
        "pairs": {
            "file": file.path,
            "fingerprint": file.fingerprint,
            "pairs": file.pairs.num_pairs,
            "queries": distinct,
            "sampling": _sampling(origin),
        },
        KEY: _seen(file, command),
    }


def _sampling(origin: Origin | None) -> dict[str, Any] | None:
    """How the pairs were drawn, without the texts of their questions."""
    if origin is None:
        return None
    return {k: v for k, v in dataclasses.asdict(origin).items() if k != "questions"}


def _seen(file: PairFile, command: str) -> dict[str, Any]:
    """The questions that fitted or chose the parameters."""
    texts = file.origin.questions if file.origin else {}
    if not set(file.query_ids) <= set(texts):
        return unknown("betr")
    return fitted_on(name="betr", command=command, questions=texts.values())


def _task(
    fit: PairFit, file: PairFile, num_queries: int, settings: BetrSettings, out: Path
) -> BetrTask:
    """A fit on all but the held-out queries."""
    return BetrTask(
        pairs=str(Path(file.path).resolve()),
        fingerprint=file.fingerprint,
        settings=settings,
        num_queries=num_queries,
        share=fit.validation_share,
        seed=fit.seed,
    ).within(out)


def _intervals(
    settings: PairFit, file: PairFile, outcome: FitOutcome, num_queries: int
) -> Certainty:
    """Intervals from all queries, as the parameters were fitted to them."""
    return certainty(
        file.pairs,
        outcome.settings,
        num_queries,
        level=settings.level,
        num_draws=settings.draws,
        seed=settings.seed,
    )


def _split_counts(outcome: FitOutcome) -> dict[str, Any]:
    """The split in figures."""
    return {
        "training_queries": int(outcome.training.sum()),
        "validation_queries": int((~outcome.training).sum()),
    }


def _loss(file: PairFile, outcome: FitOutcome) -> dict[str, Any]:
    """The held-out loss of the chosen candidate, before its fit to all queries."""
    if outcome.held_out is None:
        return unmeasured("no query was held out")
    held = file.pairs.select(~outcome.training)
    losses = query_losses(np.array(outcome.held_out.theta), held)
    if not len(losses):
        return unmeasured("no query that was held out has a pair")
    return measured(bootstrap_interval(losses), len(losses), better="lower")


def _summary(outcome: FitOutcome, stated: dict[str, Any]) -> dict[str, Any]:
    """The job's figures."""
    return {
        "a": outcome.fit.a,
        "u": outcome.fit.u,
        "intervals": stated["intervals"],
        "objective": outcome.fit.objective,
        "solver_gap": outcome.fit.gap,
        "settings": stated["settings"],
        "pairs": stated["pairs"]["pairs"],
        "queries": stated["pairs"]["queries"],
        "num_queries": stated["num_queries"],
        "reranker": stated["reranker"],
        "fingerprint": stated["pairs"]["fingerprint"],
    }
