"""The settings of `srrag train_filter`, checked before the job reads any data."""

from __future__ import annotations

import itertools
from typing import Any

from srrag.config import factory
from srrag.core.errors import UsageError
from srrag.lab.train.filter.settings import DEFAULTS, FilterSettings
from srrag.model.filter import Base
from srrag.model.pair_causal import LoRA
from srrag.runner.runner import Runner

COMPARED = ("learning_rate", "epochs", "yes_weight")
FIXED = ("batch", "weight_decay", "precision", "checkpointing", "shard")
MAX_TOKENS = {"encoder": 256, "causal": 1024}


def check(train: dict[str, Any], runner: Runner) -> None:
    """Raise UsageError for a wrong setting before the job reads any data."""
    if train["data"] is None and None in (train["pairs"], train["test"]):
        raise UsageError("train.data=FOLDER is missing, with train.jsonl and dev.jsonl")
    if not 0 < train["validation_share"] < 1:
        raise UsageError(f"train.validation_share={train['validation_share']} is outside 0…1")
    if not 0 < train["answer_precision"] <= 1:
        raise UsageError(f"train.answer_precision={train['answer_precision']} is outside 0…1")
    if train["folds"] not in range(2, 101) and train["folds"] != 0:
        raise UsageError(f"train.folds={train['folds']}: 0, or from 2 on")
    if train["workers"] and not hasattr(runner, "connect"):
        raise UsageError(f"train.workers={train['workers']}: workers need profile=ray")
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
        base = Base(
            kind=train["kind"], model=train["model"], revision=train["revision"],
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
