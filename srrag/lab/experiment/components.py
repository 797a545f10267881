"""Evaluate a part of a pipeline by itself: an evidence filter, or what reads mentions in texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from srrag.core.errors import UsageError, reading
from srrag.core.figures import printed
from srrag.core.provenance import Fitted, overlap
from srrag.lab.datasets import json_lines
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.pico import score_ebmnlp, score_evidence_inference
from srrag.lab.train.filter.judge import Scored, judge
from srrag.lab.train.filter.pairs import JudgedPairs, read_judged
from srrag.model.filter import load_filter
from srrag.runner.progress import say


def evaluate_filter(terms: Terms) -> dict[str, Any]:
    """Judge every pair of the file at the threshold that the filter in `bench.model` stores.

    Pairs of questions that it was fitted on are left out unless in_sample=allow.
    """
    path, folder = terms.path, Path(terms.bench["model"])
    if not folder.is_dir():
        raise UsageError(f"bench.model={folder}: no such folder; `srrag train_filter` makes it")
    with reading(path):
        pairs = read_judged(path)
    if not 0 < pairs.labels.sum() < len(pairs):
        raise UsageError(f"{path}: all pairs have the same label; there is nothing to tell apart")
    loaded = load_filter(folder, terms.running.place.device)
    pairs, seen = _unseen(terms.in_sample, path, pairs, loaded.facts.fitted)
    threshold = loaded.facts.decision.threshold
    probabilities = loaded.probabilities(pairs.questions, pairs.passages)
    found = judge(Scored(pairs, probabilities, threshold), terms.resamples)
    for name, each in found["metrics"].items():
        say(f"  {name:<10}{printed(each)}")
    return {
        **found,
        "in_sample_pairs": seen,
        "threshold": threshold,
        "model": str(folder),
        "revision": loaded.revision,
    }


def _unseen(
    in_sample: str, path: Path, pairs: JudgedPairs, fitted: Fitted
) -> tuple[JudgedPairs, int]:
    """Leave out pairs of questions that the filter was fitted on, and count them.

    Raises UsageError if no others are left to tell apart.
    """
    places = overlap(fitted, pairs.questions).questions
    if not fitted.known:
        say("not known what it was fitted on: evidence filter")
    if not places:
        return pairs, 0
    say(f"{len(places)} of {len(pairs)} pairs are in-sample: {in_sample}")
    if in_sample == "allow":
        return pairs, len(places)
    keep = np.ones(len(pairs), bool)
    keep[list(places)] = False
    kept = pairs.select(keep)
    if not 0 < kept.labels.sum() < len(kept):
        raise UsageError(f"{path}: the filter was fitted on these questions (in_sample=allow)")
    return kept, len(places)


SCORES: Mapping[str, Callable[..., dict[str, Any]]] = {
    "ebmnlp": score_ebmnlp,
    "evidence_inference": score_evidence_inference,
}


def evaluate_extraction(terms: Terms) -> dict[str, Any]:
    """Score the mentions of the rules, or of a tagger, on EBM-NLP or Evidence Inference prompts.

    Raises UsageError if they were fitted on a text of EBM-NLP's, unless in_sample=allow.
    """
    kind, path = str(terms.bench["kind"]), terms.path
    if not terms.by_rules:
        raise UsageError(f"engine: bench.kind={kind} scores mentions; leave engine=rules")
    mentions = terms.make("mentions")
    mentions.open(terms.running.place.threads)
    with reading(path):
        if kind == "ebmnlp" and terms.in_sample != "allow":
            check_unseen(path, mentions.fitted())
        found = SCORES[kind](path, mentions.read, **terms.resampling)
    for name, each in found["metrics"].items():
        say(f"  {name:<36}{printed(each)}")
    return {**found, "model": mentions.name}


def check_unseen(path: Path, fitted: Fitted) -> None:
    """Raise UsageError if a text to score on is one that the mentions were learned from."""
    texts = [str(row.get("text", "")) for _, row in json_lines.rows(path, "an abstract of EBM-NLP")]
    seen = overlap(fitted, (), texts).documents
    if seen:
        raise UsageError(
            f"bench.path={path}: {fitted.name} was fitted on {len(seen)} of {len(texts)} texts; "
            "in_sample=allow scores them all the same"
        )
