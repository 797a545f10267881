"""Evaluate what rules, a tagger or a vocabulary read in texts against experts' annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, reading
from srrag.core.figures import printed
from srrag.core.provenance import Fitted, overlap
from srrag.lab.datasets import json_lines
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.linking import linking_figures, read_indexed
from srrag.lab.measure.pico import score_ebmnlp, score_evidence_inference
from srrag.lab.measure.splits import questions_of
from srrag.reading.vocabulary import Vocabulary
from srrag.runner.progress import say

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


def evaluate_linking(terms: Terms) -> dict[str, Any]:
    """Link the documents of `docs.jsonl` to a vocabulary, without synonyms and with."""
    path = terms.path
    with reading(path / "docs.jsonl"):
        documents = read_indexed(path / "docs.jsonl")
    keyed = [{"query_id": each["title"], **each} for each in documents]
    documents = list(questions_of(keyed, terms.bench["split"]))
    try:
        matchers = {
            name: Vocabulary(folder=str(terms.bench["mesh"]), synonyms=synonyms).open()
            for name, synonyms in (("names", False), ("synonyms", True))
        }
    except ValueError as error:
        raise UsageError(f"bench.{error}") from error
    figures = linking_figures(documents, matchers, **terms.resampling)
    lines = [f"  {name:<40}{printed(each)}" for name, each in figures.items()]
    say("\n".join([f"{len(documents)} documents", *lines, ""]))
    return {"documents": len(documents), "metrics": figures}
