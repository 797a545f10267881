"""Train evidence filters with several seeds, calibrate and judge them, and write the best."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.classification import best_threshold
from srrag.config import factory
from srrag.core.errors import UsageError, reading
from srrag.core.provenance import KEY, fitted_on
from srrag.lab.experiment.running import check_workers
from srrag.lab.train.filter.judge import (
    Scored,
    card,
    decide,
    judge_filter,
    pair_cosines,
    write_card,
    write_model,
)
from srrag.lab.train.filter.pairs import (
    DEFAULTS,
    FilterSettings,
    FilterTask,
    JudgedPairs,
    check_both_classes,
    read_judged,
)
from srrag.lab.train.filter.training import ChosenSettings, Trained, choose_and_train, read_training
from srrag.lab.train.group import Trials
from srrag.model.encoder import model_revision
from srrag.model.filter import Base, Decision, Floats, load_filter
from srrag.model.pair_causal import LoRA
from srrag.runner.runner import Runner


@dataclass(frozen=True, kw_only=True)
class TrainFilterJob:
    """Filters on the judged pairs of a file; the test file judges them and chooses none.

    With `folds`, the candidates are compared by cross-validation; else on `validation_share` of the
    questions.
    """

    pairs: Path
    test: Path
    base: Base
    candidates: Sequence[FilterSettings]
    seeds: Sequence[int]
    folds: int
    validation_share: float
    split_seed: int
    resamples: int
    device: str
    out: Path
    command: str

    def run(self, trials: Trials) -> dict[str, Any]:
        """Train, choose and calibrate on held-out questions, judge on the test file, write all."""
        started = time.perf_counter()
        with reading(self.pairs, self.test):
            test = read_judged(self.test)
            pairs = read_training(str(self.pairs), str(self.test))
            for some in (pairs, test):
                check_both_classes(some)

        def make(settings: FilterSettings, seed: int, fold: int | None) -> FilterTask:
            return self._task(pairs, settings, seed, fold)

        choice = choose_and_train(
            pairs, make, list(self.candidates), list(self.seeds), trials, self.folds
        )
        cosines = [pair_cosines(some.questions, some.passages) for some in (pairs, test)]
        given = Material(pairs, test, *cosines)
        finished = [self._finish(choice, n, given) for n in range(len(choice.trained))]
        summary = self._summary(choice, finished)
        seconds = round(time.perf_counter() - started, 3)
        return {**summary, "out": str(self.out), "seconds": seconds}

    def _task(
        self, pairs: JudgedPairs, settings: FilterSettings, seed: int, fold: int | None
    ) -> FilterTask:
        """A training, with a folder of checkpoints that bears the name of what it is."""
        return FilterTask(
            pairs=str(Path(pairs.path).resolve()),
            other=str(self.test.resolve()),
            fingerprint=pairs.fingerprint,
            base=self.base,
            settings=settings,
            folds=self.folds,
            fold=-1 if fold is None else fold,
            share=0.0 if fold is None else self.validation_share,
            split_seed=self.split_seed,
            seed=seed,
            device=self.device,
        ).within(self.out)

    def _finish(self, choice: ChosenSettings, place: int, given: Material) -> dict[str, Any]:
        """Calibrate a training, write its folder, and judge it as its user will run it."""
        trained = choice.trained[place]
        decision = decide(given.pairs.select(trained.held), trained.logits)
        folder = self.out / ("model" if place == choice.best else f"seed-{trained.task.seed}")
        facts = {
            "settings": dataclasses.asdict(choice.settings),
            "seed": trained.task.seed,
            "data": data_facts(given, trained),
            "validation_AUROC": trained.AUROC,
            "curve": trained.result["curve"],
            "command": self.command,
            KEY: fitted_on(
                name="evidence filter", command=self.command, questions=given.pairs.questions
            ),
        }
        write_model(folder, self.base, trained.weights, decision, facts)
        loaded = load_filter(folder, self.device)
        found = loaded.probabilities(given.test.questions, given.test.passages)
        stated = facts | judged(given, found, decision, self.resamples)
        write_card(folder, card(self.base, decision, stated))
        return stated

    def _summary(
        self, choice: ChosenSettings, finished: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        """The job's figures: those of the filter that is kept, and the spread over the seeds."""
        kept = finished[choice.best]
        names = kept["metrics"]
        table = np.array([[one["metrics"][name]["value"] for name in names] for one in finished])
        return {
            **{k: v for k, v in kept.items() if k not in ("curve", "command", KEY)},
            "compared": choice.compared,
            "folds": self.folds,
            "seeds": {
                "each": [
                    {key: one[key] for key in ("seed", "metrics", "difference")} for one in finished
                ],
                "mean": dict(zip(names, table.mean(axis=0).round(4).tolist(), strict=True)),
                "least": dict(zip(names, table.min(axis=0).tolist(), strict=True)),
            },
            "model": str(self.out / "model"),
            "revision": load_filter(self.out / "model").revision,
        }


@dataclass(frozen=True)
class Material:
    """Training and test data, with the packaged encoder's cosines of both."""

    pairs: JudgedPairs
    test: JudgedPairs
    cosines: Floats
    test_cosines: Floats


def judged(given: Material, found: Floats, decision: Decision, resamples: int) -> dict[str, Any]:
    """Figures of probabilities on the test file, beside the cosine's."""
    limit = best_threshold(given.pairs.labels, given.cosines)
    return {
        **judge_filter(
            Scored(given.test, found, decision.threshold),
            Scored(given.test, given.test_cosines, limit),
            given.test.seen_passages(given.pairs),
            resamples,
        ),
        "decision": dataclasses.asdict(decision),
    }


def data_facts(given: Material, trained: Trained) -> dict[str, Any]:
    """Describe the training and the test data."""
    pairs, test = given.pairs, given.test
    whole = read_judged(Path(pairs.path))
    learned = pairs if trained.held.all() else pairs.select(~trained.held)
    return {
        "training_file": Path(pairs.path).name,
        "training_fingerprint": pairs.fingerprint,
        "training_pairs": len(learned),
        "training_questions": learned.num_questions,
        "training_yes_share": round(float(learned.labels.mean()), 4),
        "validation_pairs": int(trained.held.sum()),
        "left_out_pairs": len(whole) - len(pairs),
        "file": Path(test.path).name,
        "fingerprint": test.fingerprint,
        "seen_passages": int(test.seen_passages(pairs).sum()),
    }


COMPARED = ("learning_rate", "epochs", "yes_weight")
FIXED = ("batch", "weight_decay", "precision", "checkpointing", "shard")
MAX_TOKENS = {"encoder": 256, "causal": 1024}


def check(train: dict[str, Any], runner: Runner) -> None:
    """Raise UsageError for a wrong setting before the job reads any data."""
    if train["data"] is None and None in (train["pairs"], train["test"]):
        raise UsageError("train.data=FOLDER is missing, with train.jsonl and dev.jsonl")
    if not 0 < train["validation_share"] < 1:
        raise UsageError(f"train.validation_share={train['validation_share']} is outside 0…1")
    if train["folds"] not in range(2, 101) and train["folds"] != 0:
        raise UsageError(f"train.folds={train['folds']}: 0, or from 2 on")
    if train["shard"] and train["folds"]:
        raise UsageError("train.folds: one worker trains a fold; not with train.shard=true")
    check_workers(train["workers"], runner)
    if train["shard"] and not train["workers"]:
        raise UsageError("train.shard=true: weights are parted over workers; set train.workers")
    factory.seeds(train["seeds"], "train.seeds")


def read_base(train: dict[str, Any]) -> Base:
    """Return the base model; raises UsageError that names the wrong setting."""
    try:
        lora = train["lora"] or None
        if lora is not None:
            lora = LoRA() if lora is True else LoRA(**lora)
        tokens = train["max_tokens"] or MAX_TOKENS.get(train["kind"], 256)
        revision = train["revision"] or model_revision(train["model"])
        base = Base(
            kind=train["kind"], model=train["model"], revision=revision,
            max_tokens=tokens, dtype=train["dtype"], lora=lora,
        )  # fmt: skip
        if base.dtype != "float32" and (lora is None or train["shard"]):
            raise ValueError(
                "train.dtype=bfloat16: for LoRA without shard only; so small steps vanish in it, "
                "use train.precision=bfloat16"
            )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    return base


def read_candidates(train: dict[str, Any]) -> list[FilterSettings]:
    """Return every combination of the lists; raises UsageError that names the wrong setting."""
    usual = DEFAULTS["lora" if train["lora"] else train["kind"]]
    given: dict[str, Any] = {
        name: usual.get(name) if train[name] is None else train[name]
        for name in (*COMPARED, *FIXED)
    }
    lists = [v if isinstance(v, list) else [v] for v in (given[name] for name in COMPARED)]
    try:
        found = [
            FilterSettings(**{**given, **dict(zip(COMPARED, some, strict=True))})
            for some in itertools.product(*lists)
        ]
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    if not found:
        raise UsageError(f"train.{', train.'.join(COMPARED)}: at least one of each is needed")
    return found
