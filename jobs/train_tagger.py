"""`srrag train_tagger`: fine-tune an encoder to tag P, I and O, and score it on expert labels."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.lab.experiment.running import check_workers, trainer
from srrag.lab.experiment.train_tagger import TrainTaggerJob, readable
from srrag.lab.train.tagger.task import TaggerSettings
from srrag.lab.train.tagger.training import run_plain
from srrag.model.encoder import model_revision
from srrag.runner.progress import say

SETTINGS = [each.name for each in fields(TaggerSettings)]


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Train a tagger for each seed, score them all, and write the best on held-out abstracts."""
    train = config["train"]
    seeds = factory.seeds(train["seeds"], "train.seeds")
    settings = {key: train[key] for key in SETTINGS}
    settings["revision"] = train["revision"] or model_revision(train["encoder"])
    runner = factory.runner(config)
    check_workers(train["workers"], runner)
    training = TrainTaggerJob(
        crowd=Path(train["crowd"]),
        expert=Path(train["expert"]) if train["expert"] else None,
        settings=factory.make_as(TaggerSettings, settings, "train"),
        seeds=seeds,
        validation_share=float(train["validation_share"]),
        split_seed=train["split_seed"],
        device=config["profile"]["device"],
        out=Path(config["out"]),
        resamples=config["resamples"],
        command=config["command"],
    )
    threads = factory.training_place(config).threads
    summary = training.run(trainer(run_plain, runner, train["workers"], threads))
    say(readable(summary["seeds"]))
    return summary
