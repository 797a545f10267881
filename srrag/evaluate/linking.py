"""How well a vocabulary's terms in a text agree with the headings that indexers gave it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from srrag.evaluate.datasets.json_lines import rows
from srrag.mentions.salient import salient_terms
from srrag.mentions.vocabulary import Matcher

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
    documents: Iterable[Row], matcher: Matcher, kinds: Collection[str] = ()
) -> dict[str, float]:
    """Precision, recall and F1 over all pairs of document and heading.

    `kinds` limits both sides to terms of these types. Check tags, and headings that the vocabulary
    does not have, are left out of the gold.
    """
    known = {term.name: term for term in matcher.names.values() if term.mesh}
    wanted = {name for name, term in known.items() if not kinds or term.type in kinds}
    both = named = gold = 0
    for document in documents:
        headings = (set(document["mesh"]) - CHECK_TAGS) & wanted
        terms = salient_terms(document["title"], document["sections"], matcher)
        found = {term.name for term in terms} & wanted
        both, named, gold = both + len(headings & found), named + len(found), gold + len(headings)
    precision, recall = both / max(1, named), both / max(1, gold)
    return {
        "precision": precision,
        "recall": recall,
        "F1": 2 * precision * recall / (precision + recall) if both else 0.0,
    }


def linking_table(documents: Sequence[Row], matchers: Mapping[str, Matcher]) -> dict[str, Any]:
    """The figures of each vocabulary: all headings, and diseases and chemicals alone."""
    groups = {"all": (), "diseases_and_chemicals": DISEASES_AND_CHEMICALS}
    return {
        f"{name}, {group}": {k: round(v, 4) for k, v in link_scores(documents, each, kinds).items()}
        for name, each in matchers.items()
        for group, kinds in groups.items()
    }
