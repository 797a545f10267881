"""Evaluate what rules, a tagger or a vocabulary read in texts against experts' annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.intervals import Values, ratio_interval
from srrag.core.errors import UsageError, reading
from srrag.core.figures import measured, printed, unmeasured
from srrag.core.provenance import Fitted, overlap
from srrag.lab.datasets import json_lines
from srrag.lab.datasets.json_lines import rows
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.pico import score_ebmnlp, score_evidence_inference
from srrag.lab.measure.references import questions_of
from srrag.reading.abbreviations import abbreviations
from srrag.reading.vocabulary import Matcher, Term, Vocabulary
from srrag.runner.progress import say


def salient_terms(title: str, sections: Sequence[str], matcher: Matcher) -> list[Term]:
    """Terms named in the title or the first section, twice, or by several words; by name.

    An abbreviation counts as the term of its long form in the document.
    """
    text = "\n".join(sections)
    counts = Counter(match.term for match in matcher.find(text))
    for short, long in abbreviations(text):
        for match in matcher.find(long):
            counts[match.term] += text.count(short) - 1
    first = {match.term for match in matcher.find(f"{title}\n{sections[0] if sections else ''}")}
    kept = {term for term, n in counts.items() if n >= 2 or " " in term.name}
    return sorted(first | kept)


CHECK_TAGS = frozenset(
    {
        "Humans", "Animals", "Male", "Female", "Pregnancy", "Infant, Newborn", "Infant",
        "Child, Preschool", "Child", "Adolescent", "Young Adult", "Adult", "Middle Aged", "Aged",
        "Aged, 80 and over", "Mice", "Rats", "Cats", "Dogs", "Rabbits", "Cattle", "Sheep", "Swine",
        "Cricetinae", "Guinea Pigs", "Chick Embryo",
    }
)  # fmt: skip
"""Headings that indexers tick on a list, whatever the text names."""
DISEASES_AND_CHEMICALS = ("Disease", "Symptom", "Drug")
Row = Mapping[str, Any]


def read_indexed(path: Path) -> list[Row]:
    """Read documents with `title`, `sections` and `mesh`; ValueError that names a bad row."""
    found: list[Row] = []
    for where, row in rows(path):
        sections, mesh = row.get("sections"), row.get("mesh")
        if not isinstance(mesh, list) or not isinstance(sections, list):
            raise ValueError(f"{where}: a document has lists mesh and sections")
        texts = [str(each.get("text", "")) for each in sections if isinstance(each, Mapping)]
        found.append({"title": str(row.get("title", "")), "sections": texts, "mesh": mesh})
    return found


def link_scores(
    documents: Iterable[Row], matcher: Matcher, kinds: Collection[str] = (), **resampling: int
) -> dict[str, dict[str, Any]]:
    """Precision, recall and F1 over all pairs of document and heading; documents are resampled.

    `kinds` limits both sides to terms of these types. Check tags, and headings that the vocabulary
    does not have, are left out of the gold.
    """
    known = {term.name: term for term in matcher.names.values() if term.mesh}
    wanted = {name for name, term in known.items() if not kinds or term.type in kinds}
    counts: list[tuple[int, int, int]] = []
    for document in documents:
        headings = (set(document["mesh"]) - CHECK_TAGS) & wanted
        terms = salient_terms(document["title"], document["sections"], matcher)
        found = {term.name for term in terms} & wanted
        counts.append((len(headings & found), len(found), len(headings)))
    both, named, gold = np.array(counts, float).reshape(-1, 3).T
    return {
        "precision": _ratio(both, named, **resampling),
        "recall": _ratio(both, gold, **resampling),
        "F1": _ratio(2 * both, named + gold, **resampling),
    }


def _ratio(parts: Values, wholes: Values, **resampling: int) -> dict[str, Any]:
    counted = wholes > 0
    if not counted.any():
        return unmeasured("no document has such a heading or term")
    found = ratio_interval(parts[counted], wholes[counted], **resampling)
    return measured(found, int(counted.sum()))


def linking_figures(
    documents: Sequence[Row], matchers: Mapping[str, Matcher], **resampling: int
) -> dict[str, dict[str, Any]]:
    """The figures of each vocabulary: all headings, and diseases and chemicals alone."""
    groups = {"all": (), "diseases_and_chemicals": DISEASES_AND_CHEMICALS}
    return {
        f"{group}_{name}_{metric}": each
        for name, matcher in matchers.items()
        for group, kinds in groups.items()
        for metric, each in link_scores(documents, matcher, kinds, **resampling).items()
    }


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
