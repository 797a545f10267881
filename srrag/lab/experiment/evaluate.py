"""Score rankings, answers, judges and extraction, each on a benchmark of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError
from srrag.lab.experiment.answers import evaluate_answers
from srrag.lab.experiment.estimate import estimate_evaluation
from srrag.lab.experiment.evaluate_ranking import evaluate_ranking
from srrag.lab.experiment.extraction import evaluate_extraction
from srrag.lab.experiment.filter import evaluate_filter
from srrag.lab.experiment.linking import evaluate_linking
from srrag.lab.experiment.near_topic import evaluate_near_topic
from srrag.lab.experiment.nli import evaluate_nli
from srrag.lab.experiment.preference import evaluate_preference
from srrag.lab.experiment.systems import System
from srrag.lab.experiment.terms import Terms
from srrag.lab.experiment.textbook import evaluate_textbook, evaluate_tree


def evaluate(
    terms: Terms, compared: Sequence[System], *, estimated: bool = False
) -> dict[str, Any]:
    """Score a system on a benchmark by its kind, and the baseline if there is one.

    `estimated` returns an upper bound on the calls instead. Raises UsageError for a benchmark that
    cannot be read.
    """
    kind, path = terms.bench["kind"], terms.path
    if not path.exists():
        raise UsageError(f"bench.path={path} does not exist")
    if kind not in KINDS:
        raise UsageError(f"bench.kind={kind}: there are {', '.join(KINDS)}")
    if kind not in ("answers", "preference") and path.is_dir() != (kind in FOLDERS):
        wanted = "folder" if kind in FOLDERS else "file"
        raise UsageError(f"bench.path={path}: bench.kind={kind} reads a {wanted}")
    return (estimate_evaluation if estimated else KINDS[kind])(terms, compared)


def _extraction(terms: Terms, _: Sequence[System]) -> dict[str, Any]:
    kind = terms.bench["kind"]
    if not terms.by_rules:
        raise UsageError(f"engine: bench.kind={kind} scores mentions; leave engine=rules")
    mentions = terms.make("mentions")
    mentions.open(terms.running.place.threads)
    return evaluate_extraction(
        kind, terms.path, mentions, in_sample=terms.in_sample, **terms.resampling
    )


def _filter(terms: Terms, _: Sequence[System]) -> dict[str, Any]:
    model, device = Path(terms.bench["model"]), terms.running.place.device
    return evaluate_filter(
        terms.path, model, device=device, in_sample=terms.in_sample, resamples=terms.resamples
    )


def _linking(terms: Terms, _: Sequence[System]) -> dict[str, Any]:
    mesh, split = str(terms.bench["mesh"]), terms.bench["split"]
    return evaluate_linking(terms.path, mesh, split, **terms.resampling)


def _nli(terms: Terms, _: Sequence[System]) -> dict[str, Any]:
    return evaluate_nli(terms)


def _tree(terms: Terms, _: Sequence[System]) -> dict[str, Any]:
    return evaluate_tree(terms.path, terms.build, terms.out)


KINDS: Mapping[str, Callable[[Terms, Sequence[System]], dict[str, Any]]] = {
    "beir": evaluate_ranking,
    "gold": evaluate_ranking,
    "answers": evaluate_answers,
    "nli": _nli,
    "preference": evaluate_preference,
    "filter": _filter,
    "linking": _linking,
    "near_topic": evaluate_near_topic,
    "textbook": evaluate_textbook,
    "textbook_tree": _tree,
    "ebmnlp": _extraction,
    "evidence_inference": _extraction,
}


FOLDERS = ("beir", "evidence_inference", "linking", "near_topic", "textbook", "textbook_tree")
"""Kinds whose benchmark is a folder; answers are read from either."""
