"""Score rankings, answers, judges, and what extracts, each on a benchmark of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.errors import UsageError, check_numbers
from srrag.evaluate.references import resource_path
from srrag.experiment.answers import evaluate_answers
from srrag.experiment.estimate import check_estimated, estimate_evaluation
from srrag.experiment.evaluate_ranking import evaluate_ranking
from srrag.experiment.extraction import evaluate_extraction
from srrag.experiment.filter import evaluate_filter
from srrag.experiment.linking import evaluate_linking
from srrag.experiment.near_topic import evaluate_near_topic
from srrag.experiment.nli import evaluate_nli
from srrag.experiment.preference import evaluate_preference
from srrag.experiment.scoring import read_bench
from srrag.experiment.textbook import evaluate_textbook, evaluate_tree
from srrag.llm.completion import Rules


def evaluate(config: dict[str, Any]) -> dict[str, Any]:
    """Dispatch on the kind of benchmark; raises UsageError for one that cannot be read."""
    kind = config["bench"]["kind"]
    path = resource_path(config["bench"]["path"])
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if kind not in KINDS:
        raise UsageError(f"bench.kind={kind}: there are {', '.join(KINDS)}")
    if kind not in ("answers", "preference") and path.is_dir() != (kind in FOLDERS):
        wanted = "folder" if kind in FOLDERS else "file"
        raise UsageError(f"bench.path={path}: bench.kind={kind} reads a {wanted}")
    check_numbers(config, resamples=1, seed=0)
    if config["estimate"]:
        check_estimated(config)
        return estimate_evaluation(config, read_bench(config, path))
    return KINDS[kind](config, path)


def _extraction(config: dict[str, Any], path: Path) -> dict[str, Any]:
    kind = config["bench"]["kind"]
    if not isinstance(factory.make(config["engine"], "engine"), Rules):
        raise UsageError(f"engine: bench.kind={kind} scores mentions; leave engine=rules")
    mentions = factory.make(config["mentions"], "mentions")
    mentions.open(factory.place(config).threads)
    given = {name: config[name] for name in ("in_sample", "resamples", "seed")}
    return evaluate_extraction(kind, path, mentions, **given)


def _filter(config: dict[str, Any], path: Path) -> dict[str, Any]:
    device, model = config["profile"]["device"], Path(config["bench"]["model"])
    given = {name: config[name] for name in ("in_sample", "resamples")}
    return evaluate_filter(path, model, device=device, **given)


def _tree(config: dict[str, Any], path: Path) -> dict[str, Any]:
    return evaluate_tree(path, config["build"], Path(config["out"]) if config["out"] else None)


KINDS: Mapping[str, Callable[[dict[str, Any], Path], dict[str, Any]]] = {
    "beir": evaluate_ranking,
    "gold": evaluate_ranking,
    "answers": evaluate_answers,
    "nli": evaluate_nli,
    "preference": evaluate_preference,
    "filter": _filter,
    "linking": evaluate_linking,
    "near_topic": evaluate_near_topic,
    "textbook": evaluate_textbook,
    "textbook_tree": _tree,
    "ebmnlp": _extraction,
    "evidence_inference": _extraction,
}


FOLDERS = ("beir", "evidence_inference", "linking", "near_topic", "textbook", "textbook_tree")
"""Kinds whose benchmark is a folder; answers are read from either."""
