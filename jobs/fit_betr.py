"""`srrag fit_betr`: learn BETR's parameters from pairs, or from a benchmark with gold windows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.core.errors import UsageError, check_numbers
from srrag.lab.experiment.feature_sets import SetFile, fit_sets, fusing, gather, said, set_metrics
from srrag.lab.experiment.fit_betr import SETTINGS, PairFit, candidates, fit_pairs
from srrag.lab.experiment.gold_sets import default_out, make_pairs, uncalibrated
from srrag.lab.experiment.running import Running, check_workers
from srrag.lab.train.betr.features import FeatureSettings
from srrag.storage.atomic_write import commit_json


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Fit the weights of features, or BETR's parameters to pairs, and write what was learned."""
    started = time.perf_counter()
    summary = run_features(config) if config["features"] else run_pairs(config)
    return {**summary, "seconds": round(time.perf_counter() - started, 3)}


def run_features(config: dict[str, Any]) -> dict[str, Any]:
    """Fit the weights that FuseFeatures ranks by to several benchmarks: `features.json`."""
    train = config["train"]
    check_numbers(train, negatives=1, depth=1, draws=1, seed=0)
    for name, given in config["features"].items():
        if not isinstance(given, dict) or set(given) != {"root", "path"}:
            raise UsageError(f"features.{name}: a root= and the path= of its benchmark are needed")
    if config["out"] is None:
        raise UsageError("out=FOLDER is missing: where features.json goes")
    _, step = fusing(pipeline := factory.make(config["pipeline"], "pipeline"))
    names = ("negatives", "depth", "level", "draws", "seed", "tau_w")
    settings = FeatureSettings(**{n: train[n] for n in names}, tau=1.0, document=step.document)
    shared = {"build": config["build"], "split": config["bench"].get("split")}
    files = [SetFile(name, **given, **shared) for name, given in config["features"].items()]
    sets = [gather(each, pipeline, Running.of(config)) for each in files]
    stated = fit_sets(sets, step, settings, train["subsets"], config["command"])
    commit_json(Path(config["out"]) / "features.json", stated, sealed=True)
    fits = {name: said(name, fit) for name, fit in stated["fits"].items()}
    kept = {name: stated[name] for name in ("sets", "embedder")}
    metrics = set_metrics(next(iter(fits.values())))
    return {"metrics": metrics, "fits": fits, **kept, "out": str(config["out"])}


def run_pairs(config: dict[str, Any]) -> dict[str, Any]:
    """Make or read the pairs, choose on held-out queries, fit, and write what was learned."""
    train, runner = config["train"], factory.runner(config)
    if train["pairs"] is None and config["root"] is None:
        raise UsageError("train.pairs=FILE or root=FOLDER is missing: the pairs, or what to rank")
    counts = {f"train.{name}": train[name] for name in ("negatives", "depth", "draws")}
    check_numbers(counts, **dict.fromkeys(counts, 1))
    check_workers(train["workers"], runner)
    try:
        grid = candidates(train["objective"], train["tau"], train["sigma_a"])
        settings = PairFit(candidates=grid, **{name: train[name] for name in SETTINGS})
    except ValueError as error:
        raise UsageError(str(error)) from error
    pipeline = None if train["pairs"] else factory.make(config["pipeline"], "pipeline")
    out = Path(config["out"] or default_out(pipeline, config["root"], train["pairs"]))
    config["out"] = str(out)
    if pipeline is None:
        pairs = Path(train["pairs"])
    else:
        bound = factory.pipeline_run(config, uncalibrated(pipeline))
        drawn = {name: train[name] for name in ("depth", "negatives", "seed")}
        given = config["bench"], bound, factory.place(config), out / "pairs.parquet"
        pairs = make_pairs(*given, **drawn)
    return {**fit_pairs(pairs, out, settings, runner, config["command"]), "out": str(out)}
