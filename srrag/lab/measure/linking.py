"""Agreement of a vocabulary's terms in a text with the headings that indexers assigned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.intervals import Values, ratio_interval
from srrag.core.figures import measured, unmeasured
from srrag.lab.datasets.json_lines import rows
from srrag.reading.salient import salient_terms
from srrag.reading.vocabulary import Matcher

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
