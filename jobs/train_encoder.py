"""`srrag train_encoder`: adapt an embedder to a corpus from questions with gold passages."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.core.errors import UsageError, check_numbers
from srrag.lab.experiment.gold_sets import GoldSource, check_folds
from srrag.lab.experiment.running import check_workers, readable, trainer
from srrag.lab.experiment.train_encoder import TrainEncoderJob
from srrag.lab.train.encoder.task import EncoderSettings
from srrag.lab.train.encoder.training import run_plain
from srrag.runner.progress import say

SETTINGS = [each.name for each in fields(EncoderSettings)]
SOURCE = ("data", "root", "build", "split", "passages")


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Train the embedder, measure it before and after, and write it if the gate lets it pass."""
    train, gate = config["train"], config["gate"]
    for key, section in (("train", train), ("gate", gate)):
        check_numbers({f"{key}.passages": section["passages"]}, **{f"{key}.passages": 0})
    check_numbers({"train.seed": train["seed"], "train.workers": train["workers"]},
                  **{"train.seed": 0, "train.workers": 0})  # fmt: skip
    margin = gate["margin"]
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0 <= margin <= 1:
        raise UsageError(f"gate.margin={margin}: a number from 0 to 1")
    runner = factory.runner(config)
    check_workers(train["workers"], runner)
    folds, held = (check_folds(train[key], f"train.{key}") for key in ("folds", "held_folds"))
    if set(folds) & set(held):
        raise UsageError(f"train.held_folds={list(held)}: train.folds has some of them")
    place = factory.training_place(config)
    training = TrainEncoderJob(
        base=factory.make(config["embedder"], "embedder"),
        source=GoldSource(**{key: train[key] for key in SOURCE}, key="train"),
        folds=folds,
        held_folds=held,
        gate=GoldSource(**{key: gate[key] for key in SOURCE}, key="gate"),
        gate_folds=check_folds(gate["folds"], "gate.folds"),
        margin=margin,
        settings=factory.make_as(EncoderSettings, {key: train[key] for key in SETTINGS}, "train"),
        seed=train["seed"],
        device=place.device,
        out=Path(config["out"]),
        resamples=config["resamples"],
        command=config["command"],
    )
    summary = training.run(trainer(run_plain, runner, train["workers"], place.threads))
    say(readable({"held out": summary, "gate": summary["gate"]}))
    return summary
