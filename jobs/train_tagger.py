"""`srrag train_tagger`: fine-tune an encoder to tag P, I and O, and score it on expert labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.core.errors import UsageError
from srrag.lab.experiment.running import trainer
from srrag.lab.experiment.train_tagger import TrainTaggerJob, readable
from srrag.lab.train.tagger.task import TaggerSettings
from srrag.lab.train.tagger.training import run_plain
from srrag.runner.progress import say

SETTINGS = (
    "encoder", "revision", "epochs", "learning_rate", "head_factor", "weight_decay",
    "dropout", "frozen_layers", "batch_tokens", "window", "context", "precision",
)  # fmt: skip


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Train a tagger for each seed, score them all, and write the best on held-out abstracts."""
    train = config["train"]
    seeds = factory.seeds(train["seeds"], "train.seeds")
    runner = factory.runner(config)
    if train["workers"] and not hasattr(runner, "connect"):
        raise UsageError(f"train.workers={train['workers']}: workers need profile=ray")
    training = TrainTaggerJob(
        crowd=Path(train["crowd"]),
        expert=Path(train["expert"]) if train["expert"] else None,
        settings=factory.make_as(TaggerSettings, {key: train[key] for key in SETTINGS}, "train"),
        seeds=seeds,
        validation_share=float(train["validation_share"]),
        split_seed=train["split_seed"],
        device=config["profile"]["device"],
        out=Path(config["out"]),
        resamples=config["resamples"],
        command=config["command"],
    )
    if train["workers"]:
        runner.connect()  # type: ignore[attr-defined]
    summary = training.run(
        trainer(run_plain, train["workers"], factory.training_place(config).threads)
    )
    say(readable(summary["seeds"]))
    return summary
