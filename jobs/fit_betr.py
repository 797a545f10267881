"""`srrag fit_betr`: learn BETR's parameters from pairs, or from a benchmark with gold windows."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.config import factory
from srrag.errors import UsageError, check_numbers, reading
from srrag.experiment.feature_sets import fit_sets, fusing
from srrag.experiment.gold_pairs import betr_of, make_pairs
from srrag.runner.progress import say
from srrag.spec import fingerprint
from srrag.storage.atomic_write import commit_json
from srrag.train.betr.features import FeatureSettings
from srrag.train.betr.fit import (
    BetrSettings,
    BetrTask,
    Certainty,
    Fit,
    certainty,
    run_plain,
    run_task,
)
from srrag.train.betr.pair_file import PairFile, contradictions, read_pairs
from srrag.train.betr.report import check_wandb, log_to_wandb, table_1, write_report
from srrag.train.betr.select import FitOutcome, Fitter, choose_and_fit
from srrag.train.group import Alone

SETTINGS = ("sigma_a", "solver", "learning_rate", "epochs", "patience")


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Fit the weights of features, or BETR's parameters to pairs, and write what was learned."""
    return run_features(config) if config["features"] else run_pairs(config)


def run_features(config: dict[str, Any]) -> dict[str, Any]:
    """Fit the weights that FuseFeatures ranks by to several benchmarks: `features.json`."""
    started, train = time.perf_counter(), config["train"]
    check_numbers(train, negatives=1, depth=1, draws=1, seed=0)
    for name, given in config["features"].items():
        if not isinstance(given, dict) or set(given) != {"root", "path"}:
            raise UsageError(f"features.{name}: a root= and the path= of its benchmark are needed")
    if config["out"] is None:
        raise UsageError("out=FOLDER is missing: where features.json goes")
    _, step = fusing(factory.make(config["pipeline"], "pipeline"))
    settings = FeatureSettings(
        **{name: train[name] for name in ("negatives", "depth", "level", "draws", "seed", "tau_w")},
        tau=1.0,
        document=step.document,
    )
    stated = fit_sets(config, settings)
    commit_json(Path(config["out"]) / "features.json", stated)
    fits = {name: _said(name, fit) for name, fit in stated["fits"].items()}
    return {
        "fits": fits,
        "sets": stated["sets"],
        "embedder": stated["embedder"],
        "out": str(config["out"]),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _said(name: str, fit: dict[str, Any]) -> dict[str, Any]:
    """Print a fit, and return it with the features that are worth nothing by name."""
    say(f"\n{name}: {fit['pairs']:,} pairs of {fit['questions']:,} questions")
    each = {**fit["features"], **{f"u_{grade}": u for grade, u in fit["u"].items()}}
    for key, found in each.items():
        note = "" if found["worth"] or key == "u_A" else "   worth nothing: it may be 0"
        say(f"  {key:<24}{found['value']:9.4f}   [{found['low']:.4f}, {found['high']:.4f}]{note}")
    for key, figures in fit["cross_fitted"].items():
        shown = ", ".join(f"{metric} {value:.4f}" for metric, value in figures.items())
        say(f"  {key}, cross-fitted: {shown}")
    useless = [key for key, found in fit["features"].items() if not found["worth"]]
    return {**fit, "worth_nothing": useless}


def run_pairs(config: dict[str, Any]) -> dict[str, Any]:
    """Make or read the pairs, choose on held-out queries, fit, and write what was learned."""
    started = time.perf_counter()
    train = config["train"]
    candidates = grid(train)
    check(config)
    out = Path(config["out"] or default_out(config))
    config["out"] = str(out)
    pairs = Path(train["pairs"] or make_pairs(config, out / "pairs.parquet"))
    with reading(pairs):
        file = read_pairs(pairs)
    facts = describe(file, train)
    tasks = [task(train, file, facts["num_queries"], settings) for settings in candidates]
    outcome = choose_and_fit(file, tasks, fitter(config, file, out / "state"), refit=train["refit"])
    certain = intervals(train, file, outcome)
    curve = (outcome.held_out or outcome.fit).curve
    split = split_table(file, outcome)
    facts |= {
        "split": {
            **split_counts(outcome),
            "share": train["validation_share"],
            "seed": train["seed"],
        },
        "candidates": outcome.compared,
        "command": config["command"],
    }
    stated = write_report(out, outcome.fit, certain, outcome.settings, facts, split, curve)
    if train["wandb"]:
        log_to_wandb(out, stated, curve)
    say(table_1(outcome.fit, certain))
    summary = summarise(outcome, stated)
    return {**summary, "out": str(out), "seconds": round(time.perf_counter() - started, 3)}


def grid(train: dict[str, Any]) -> list[BetrSettings]:
    """Every objective with every τ; raises UsageError that names the setting."""
    choices = [
        value if isinstance(value, list) else [value]
        for value in (train["objective"], train["tau"])
    ]
    fixed = {name: train[name] for name in SETTINGS}
    try:
        found = [
            BetrSettings(objective=o, tau=t + 0.0 if isinstance(t, int) else t, **fixed)
            for o, t in itertools.product(*choices)
        ]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not found:
        raise UsageError("train.objective, train.tau: at least one of each is needed")
    return found


def check(config: dict[str, Any]) -> None:
    """Raise UsageError for a wrong setting before the job reads any data."""
    train = config["train"]
    if train["pairs"] is None and config["root"] is None:
        raise UsageError("train.pairs=FILE or root=FOLDER is missing: the pairs, or what to rank")
    if not 0 <= train["validation_share"] < 1:
        raise UsageError(f"train.validation_share={train['validation_share']} is outside 0…1")
    if not 0 < train["level"] < 1:
        raise UsageError(f"train.level={train['level']} is outside 0…1")
    for name in ("negatives", "depth", "draws"):
        if not isinstance(train[name], int) or train[name] < 1:
            raise UsageError(f"train.{name}={train[name]}: a whole number above 0 is needed")
    if train["workers"] and not on_ray(config):
        raise UsageError(f"train.workers={train['workers']}: workers need profile=ray")
    if train["wandb"]:
        check_wandb()


def on_ray(config: dict[str, Any]) -> bool:
    """Whether the profile's runner is Ray's."""
    return hasattr(factory.runner(config), "connect")


def default_out(config: dict[str, Any]) -> Path:
    """Return the path that the pipeline's BETR reads, else one beside the pairs or in the root."""
    if config["train"]["pairs"] is None:
        step = betr_of(factory.make(config["pipeline"], "pipeline"))
        if step is not None:
            return Path(step.model).parent
    if config["root"] is None:
        return Path(config["train"]["pairs"]).parent / "betr"
    return Path(config["root"]) / "jobs" / "fit_betr"


def describe(file: PairFile, train: dict[str, Any]) -> dict[str, Any]:
    """Describe the pairs for betr.json; raises UsageError for a |Q| below the number of queries."""
    origin, distinct = file.origin, len(file.query_ids)
    known = origin.num_queries if origin else distinct
    num_queries = known if train["num_queries"] is None else train["num_queries"]
    if isinstance(num_queries, bool) or not isinstance(num_queries, int) or num_queries < distinct:
        raise UsageError(f"train.num_queries={num_queries}: the pairs are of {distinct} queries")
    return {
        "reranker": train["reranker"] or (origin.reranker if origin else None),
        "num_queries": num_queries,
        "pairs": {
            "file": file.path,
            "fingerprint": file.fingerprint,
            "pairs": file.pairs.num_pairs,
            "queries": distinct,
            "sampling": dataclasses.asdict(origin) if origin else None,
        },
        "contradictory_pairs": contradictions(file.pairs),
    }


def task(
    train: dict[str, Any], file: PairFile, num_queries: int, settings: BetrSettings
) -> BetrTask:
    """A fit on all but the held-out queries."""
    return BetrTask(
        pairs=str(Path(file.path).resolve()),
        fingerprint=file.fingerprint,
        settings=settings,
        num_queries=num_queries,
        share=train["validation_share"],
        seed=train["seed"],
    )


def fitter(config: dict[str, Any], file: PairFile, state: Path) -> Fitter:
    """Fits in this process, or on Ray: trials for the candidates, workers for the last one."""
    workers = config["train"]["workers"]
    if not workers:
        here = functools.partial(_fit_here, file=file, state=state)
        return Fitter(lambda tasks: [here(task) for task in tasks], here)
    from srrag.runner.ray.train import train_on_ray
    from srrag.runner.ray.tune import tune_on_ray

    factory.runner(config).connect()  # type: ignore[attr-defined]

    def compare(tasks: Sequence[BetrTask]) -> list[Fit]:
        plain = [task.plain() for task in tasks]
        results = tune_on_ray(run_plain, plain, folder=state, name=f"tune-{fingerprint(plain)}")
        return [Fit(**result) for result in results]

    def train(task: BetrTask) -> Fit:
        plain = task.plain()
        name = f"train-{fingerprint(plain)}"
        return Fit(**train_on_ray(run_plain, plain, workers=workers, folder=state, name=name))

    return Fitter(compare, train)


def _fit_here(task: BetrTask, *, file: PairFile, state: Path) -> Fit:
    return run_task(task, Alone(state / f"{fingerprint(task.plain())}.json"), file)


def intervals(train: dict[str, Any], file: PairFile, outcome: FitOutcome) -> Certainty:
    """Intervals from the queries that the parameters were fitted to."""
    return certainty(
        file.pairs.select(outcome.fitted),
        outcome.settings,
        outcome.num_queries,
        level=train["level"],
        num_draws=train["draws"],
        seed=train["seed"],
    )


def split_table(file: PairFile, outcome: FitOutcome) -> pa.Table:
    """Which queries were held out."""
    parts_ = np.where(outcome.training, "training", "validation")
    return pa.table({"query_id": file.query_ids, "part": parts_.tolist()})


def split_counts(outcome: FitOutcome) -> dict[str, Any]:
    """The split in figures."""
    return {
        "training_queries": int(outcome.training.sum()),
        "validation_queries": int((~outcome.training).sum()),
        "fitted_queries": int(outcome.fitted.sum()),
        "fitted_num_queries": outcome.num_queries,
    }


def summarise(outcome: FitOutcome, stated: dict[str, Any]) -> dict[str, Any]:
    """The job's figures."""
    held_out = outcome.held_out
    return {
        "a": outcome.fit.a,
        "u": outcome.fit.u,
        "intervals": stated["intervals"],
        "objective": outcome.fit.objective,
        "solver_gap": outcome.fit.gap,
        "settings": stated["settings"],
        "validation_loss": held_out.validation_loss if held_out else None,
        "pairs": stated["pairs"]["pairs"],
        "queries": stated["pairs"]["queries"],
        "num_queries": stated["num_queries"],
        "contradictory_pairs": stated["contradictory_pairs"],
        "reranker": stated["reranker"],
        "fingerprint": stated["pairs"]["fingerprint"],
    }


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("fit_betr", run, sys.argv[1:]))
