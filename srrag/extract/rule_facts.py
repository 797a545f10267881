"""Turn mentions and attribute values of a text into the facts that an ontology admits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from srrag.core.ontology import DOCUMENT, Ontology
from srrag.reading.concepts import concept_name, concept_spans
from srrag.reading.mentions import (
    MAX_CHARS,
    PATTERN_CONFIDENCE,
    Mention,
    find_mentions,
    lower_same_length,
)
from srrag.reading.values import Value, find_values, timepoint

Find = Callable[[Sequence[str], Sequence[str], Sequence[bool]], list[list[Mention]]]
"""Maps texts, section names and document-start flags to the typed mentions of each text."""

Row = dict[str, str | float]

_RELATION = {
    "Population": "has_population",
    "Condition": "has_condition",
    "Intervention": "uses_intervention",
    "Comparator": "compares_to",
    "Outcome": "reports_outcome",
    "Timepoint": "has_timepoint",
    "Arm": "targets_arm",
    "Device": "uses_device",
    "AdverseEvent": "has_adverse_event",
}
_HEADS = {
    "Comparator": ("Intervention",),
    "AdverseEvent": ("Intervention", "Comparator", "Device"),
    "Timepoint": ("Outcome",),
    "Contraindication": ("Intervention", "Device"),
}
"""Types that can be the head of a relation to a later mention in the same sentence."""
_REFUSAL = ("not ", "against", "avoid")

NEUTRAL_TYPE = {
    "Population": "ClinicalConcept",
    "Condition": "ClinicalConcept",
    "Intervention": "ClinicalConcept",
    "Comparator": "ClinicalConcept",
    "Arm": "ClinicalConcept",
    "Outcome": "OutcomeMeasure",
}
NEUTRAL_RELATION = {
    "has_population": "mentions",
    "has_condition": "mentions",
    "uses_intervention": "mentions",
    "compares_to": "associated_with",
    "targets_arm": "mentions",
    "reports_outcome": "reports_measure",
}
"""Relations of the neutral schema, which has no PICO types, for the PICO relations of the rules."""


class Kinds(NamedTuple):
    """Types and relation of a fact as an ontology names them."""

    head_type: str
    relation: str
    tail_type: str


def spoken(ontology: Ontology, head_type: str, relation: str, tail_type: str) -> Kinds | None:
    """Translate a fact's types into the ontology; None if the ontology lacks them.

    PICO types stay if the ontology has them, else NEUTRAL_TYPE and NEUTRAL_RELATION translate them.
    A document "mentions" a concept; it is never "associated with" it.
    """
    kinds = Kinds(head_type, relation, tail_type)
    if ontology.admits(*kinds):
        return kinds
    head, tail = NEUTRAL_TYPE.get(head_type, head_type), NEUTRAL_TYPE.get(tail_type, tail_type)
    for name in (relation, NEUTRAL_RELATION.get(relation, relation), "mentions"):
        if ontology.admits(head, name, tail):
            return Kinds(head, name, tail)
    return None


def spoken_attribute(ontology: Ontology, entity_type: str, attribute: str) -> str | None:
    """Return the entity's type in the ontology if it may have the attribute, else None."""
    for kind in (entity_type, NEUTRAL_TYPE.get(entity_type, entity_type)):
        if ontology.admits_attribute(kind, attribute):
            return kind
    return None


def extract_facts(
    texts: Sequence[str],
    sections: Sequence[str],
    leads: Sequence[bool],
    documents: Sequence[str],
    ontology: Ontology,
    find: Find = find_mentions,
) -> list[tuple[list[Row], list[Row]]]:
    """Return facts and attributes of each text, by head, relation and tail."""
    answers = []
    for text, document, found in zip(texts, documents, find(texts, sections, leads), strict=True):
        lower = lower_same_length(text)
        mentions = [
            m._replace(start=start, end=end)
            for m in found
            if m.end - m.start <= MAX_CHARS
            for start, end in concept_spans(lower, m.type, m.start, m.end)
        ]
        writer = _Writer(text, lower, document, ontology)
        writer.relate(mentions)
        writer.describe(mentions, find_values(lower))
        answers.append((writer.facts, writer.attributes))
    return answers


def _distance(value: Value, mention: Mention) -> int:
    """Return the number of characters between a value and a mention; 0 if they touch or overlap."""
    return max(mention.start - value.end, value.start - mention.end, 0)


class _Writer:
    """Collects the facts of one text without duplicates."""

    def __init__(self, text: str, lower: str, document: str, ontology: Ontology) -> None:
        self.text, self.lower, self.document, self.ontology = text, lower, document, ontology
        self.facts: list[Row] = []
        self.attributes: list[Row] = []
        self._seen: set[tuple[str, ...]] = set()

    def relate(self, mentions: Sequence[Mention]) -> None:
        """Add a fact for each mention: its head is an earlier entity, else the document."""
        for place, mention in enumerate(mentions):
            if mention.type == "Recommendation":
                self._recommendation(mention, mentions[place + 1 :])
            elif mention.type == "Contraindication":
                self._contraindication(place, mentions)
            else:
                head = self._head(place, mentions)
                self._fact(head, _RELATION[mention.type], mention)

    def describe(self, mentions: Sequence[Mention], values: Sequence[Value]) -> None:
        """Attach each value to the nearest entity in its sentence, else to the document."""
        for mention in mentions:
            point = timepoint(self.lower[mention.start : mention.end])
            if mention.type == "Timepoint" and point:
                span = (mention.start, mention.end)
                self._attribute(mention, Value("timepoint_value", point[0], *span))
                self._attribute(mention, Value("timepoint_unit", point[1], *span))
        for value in values:
            near = sorted(mentions, key=functools.partial(_distance, value))
            if not any(self._same_sentence(m, value) and self._attribute(m, value) for m in near):
                self._attribute(None, value)

    def _same_sentence(self, one: Mention, other: Value | Mention) -> bool:
        start, end = min(one.end, other.end), max(one.start, other.start)
        return self.lower.find(". ", start - 1, end) < 0 and self.lower.find("\n", start, end) < 0

    def _head(self, place: int, mentions: Sequence[Mention]) -> Mention | None:
        tail = mentions[place]
        for mention in reversed(mentions[:place]):
            if not self._same_sentence(mention, tail):
                return None
            if mention.type in _HEADS.get(tail.type, ()):
                return mention
        return None

    def _recommendation(self, mention: Mention, later: Sequence[Mention]) -> None:
        words = self.lower[mention.start : mention.end]
        relation = "recommends_for"
        if any(word in words for word in _REFUSAL):
            relation = "recommends_against"
        self._fact(None, relation, mention)
        for other in later:
            if other.start >= mention.end:
                break
            if other.type in ("Intervention", "Device"):
                self._fact(mention, relation, other)

    def _contraindication(self, place: int, mentions: Sequence[Mention]) -> None:
        mention = mentions[place]
        head = self._head(place, mentions)
        for other in mentions[place + 1 :]:
            if other.start < mention.end and other.type in ("Population", "Condition"):
                self._fact(head, "contraindicated_for", other)
                return
        self._fact(head, "contraindicated_for", mention)

    def _name(self, mention: Mention | None) -> str:
        if mention is None:
            return self.document
        return concept_name(self.text[mention.start : mention.end])

    def _fact(self, head: Mention | None, relation: str, tail: Mention) -> None:
        kinds = spoken(self.ontology, head.type if head else DOCUMENT, relation, tail.type)
        key = (self._name(head), relation, self._name(tail).lower(), tail.type)
        if kinds is None or key in self._seen:
            return
        self._seen.add(key)
        start = tail.start if head is None else min(head.start, tail.start)
        confidence = tail.confidence if head is None else min(head.confidence, tail.confidence)
        self.facts.append(
            {
                "head": self._name(head),
                "head_type": kinds.head_type,
                "relation": kinds.relation,
                "tail": self._name(tail),
                "tail_type": kinds.tail_type,
                "quote": self.text[start : max(tail.end, head.end if head else 0)],
                "confidence": confidence,
            }
        )

    def _attribute(self, owner: Mention | None, value: Value) -> bool:
        """Add the attribute if the ontology allows it there; returns whether it does."""
        kind = spoken_attribute(self.ontology, owner.type if owner else DOCUMENT, value.attribute)
        if kind is None:
            return False
        key = (self._name(owner), value.attribute, value.value)
        if key not in self._seen:
            self._seen.add(key)
            self.attributes.append(
                {
                    "entity": self._name(owner),
                    "entity_type": kind,
                    "attribute": value.attribute,
                    "value": value.value,
                    "quote": self.text[value.start : value.end],
                    "confidence": PATTERN_CONFIDENCE,
                }
            )
        return True
