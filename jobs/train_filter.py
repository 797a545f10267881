"""`srrag train_filter`: learn p(a passage holds evidence | question) from judged pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.lab.experiment.running import readable, trials
from srrag.lab.experiment.train_filter import (
    TrainFilterJob,
    check,
    read_base,
    read_candidates,
)
from srrag.lab.train.filter.training import run_plain
from srrag.runner.progress import say


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Train, choose and calibrate on held-out questions, judge on the test file, write it all."""
    train = config["train"]
    base, candidates = read_base(train), read_candidates(train)
    runner = factory.runner(config)
    check(train, runner)
    below = Path() if config["root"] is None else Path(config["root"]) / "jobs"
    out = Path(config["out"] or below / "train_filter")
    config["out"] = str(out)
    training = TrainFilterJob(
        pairs=Path(train["pairs"] or Path(train["data"]) / "train.jsonl"),
        test=Path(train["test"] or Path(train["data"]) / "dev.jsonl"),
        base=base,
        candidates=candidates,
        seeds=factory.seeds(train["seeds"], "train.seeds"),
        validation_share=float(train["validation_share"]),
        device=config["profile"]["device"],
        out=out,
        command=config["command"],
        **{key: train[key] for key in ("folds", "split_seed")},
        resamples=train["resamples"],
    )
    threads = factory.training_place(config).threads
    summary = training.run(trials(run_plain, runner, train["workers"], threads))
    new = summary.get("new_passages")
    said = {"all test pairs": summary} | ({"passages new to it": new} if new else {})
    say(readable(said))
    return summary
