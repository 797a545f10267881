"""`srrag evaluate bench=ebmnlp | evidence_inference`: score mentions against expert annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, reading
from srrag.core.figures import printed
from srrag.core.provenance import Fitted, overlap
from srrag.extract.find_mentions import FindMentions
from srrag.lab.datasets import json_lines
from srrag.lab.measure.pico import score_ebmnlp, score_evidence_inference
from srrag.runner.progress import say

SCORES: Mapping[str, Callable[..., dict[str, Any]]] = {
    "ebmnlp": score_ebmnlp,
    "evidence_inference": score_evidence_inference,
}


def evaluate_extraction(
    kind: str, path: Path, mentions: FindMentions, *, in_sample: str, resamples: int, seed: int
) -> dict[str, Any]:
    """Score the mentions of the rules, or of a tagger, on EBM-NLP or Evidence Inference prompts.

    `mentions` are open. Raises UsageError if they were fitted on a text of EBM-NLP's, unless
    `in_sample` is "allow".
    """
    with reading(path):
        if kind == "ebmnlp" and in_sample != "allow":
            check_unseen(path, mentions.fitted())
        found = SCORES[kind](path, mentions.read, resamples=resamples, seed=seed)
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
