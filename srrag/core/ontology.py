"""The extraction schema: the types of entities, relations and attributes that a fact may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

DOCUMENT = "Document"
"""Type of the implicit head of document-level relations: the study or guideline itself."""
HAS_ATTRIBUTE = "has_attribute"
"""The built-in relation from an entity to the value of one of its attributes."""
ANY = "any"
FOLLOWING = ("compares_to", "has_timepoint", "reports_outcome", "targets_arm", "uses_intervention")
"""Relations that follow from findings and from what a document has, where a schema has findings."""


@dataclass(frozen=True, kw_only=True)
class Ontology:
    """S = <S_e, S_r, S_attr> with the types allowed at each end (SR-RAG Eq. 10, 11).

    `relations` maps a relation to its allowed `head` and `tail` types. `attributes` maps an
    attribute to the types that may have it; ["any"] means all types and the document. `findings`
    names the relation from an intervention to an outcome that a finding of each direction is; empty
    if the schema has no findings. Raises ValueError that names the relation or attribute with an
    unknown type.
    """

    entities: list[str]
    relations: dict[str, dict[str, list[str]]]
    attributes: dict[str, list[str]] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError if an end refers to an unknown type."""
        known = {*self.entities, DOCUMENT}
        if len(set(self.entities)) != len(self.entities) or DOCUMENT in self.entities:
            raise ValueError(f"ontology: entities must differ, and {DOCUMENT!r} is built in")
        if HAS_ATTRIBUTE in self.relations:
            raise ValueError(f"ontology: relation {HAS_ATTRIBUTE!r} is built in")
        for name, ends in self.relations.items():
            if set(ends) != {"head", "tail"}:
                raise ValueError(f"ontology: relation {name!r} needs exactly head and tail")
            for kind in (*ends["head"], *ends["tail"]):
                if kind not in known:
                    raise ValueError(f"ontology: relation {name!r} has unknown type {kind!r}")
        for name, owners in self.attributes.items():
            for kind in owners:
                if kind != ANY and kind not in known:
                    raise ValueError(f"ontology: attribute {name!r} has unknown type {kind!r}")
        for name in self.findings.values():
            if name in self.relations:
                raise ValueError(f"ontology: relation {name!r} follows from findings")

    @property
    def told(self) -> dict[str, list[str]]:
        """The relations that have to be stated, with the types of their heads.

        Left out are those of a document that the type of their tail implies, and those that follow
        from findings.
        """
        implied = {kind: self.implied(kind) for kind in self.entities}
        told = {}
        for name, ends in sorted(self.relations.items()):
            follows = all(implied[kind] == name for kind in ends["tail"] if kind in implied)
            heads = [kind for kind in ends["head"] if kind != DOCUMENT or not follows]
            if heads and not (self.findings and name in FOLLOWING):
                told[name] = heads
        return told

    def implied(self, kind: str) -> str | None:
        """Return the relation that a document has to an entity of a type just by telling of it.

        Of those that the schema admits, the first with this type as its first tail, else the first.
        """
        tails = {
            name: ends["tail"] for name, ends in self.relations.items() if DOCUMENT in ends["head"]
        }
        leads = [name for name, kinds in tails.items() if kinds[:1] == [kind]]
        return next(iter([*leads, *(name for name, kinds in tails.items() if kind in kinds)]), None)

    def knows_type(self, kind: str) -> bool:
        """Whether a type may be an end of a fact."""
        return kind == DOCUMENT or kind in self.entities

    def admits(self, head_type: str, relation: str, tail_type: str) -> bool:
        """Whether (h, r, t) is in the schema: Eq. 11, first form."""
        ends = self.relations.get(relation)
        return ends is not None and head_type in ends["head"] and tail_type in ends["tail"]

    def admits_attribute(self, entity_type: str, attribute: str) -> bool:
        """Whether (e, has_attribute, a) is in the schema: Eq. 11, second form."""
        owners = self.attributes.get(attribute, [])
        return entity_type in owners or (ANY in owners and self.knows_type(entity_type))

    def outline(self, without: Sequence[str] = ()) -> str:
        """Render what has to be stated, for extraction: types, relations that no type implies and
        attributes, by the types that share them. The document may have every attribute.
        """
        ends: dict[str, list[str]] = {}
        for name, heads in self.told.items():
            tails = self.relations[name]["tail"]
            kinds = ", ".join(heads)
            both = f"among {kinds}" if heads == tails else f"{kinds} -> {', '.join(tails)}"
            ends.setdefault(both, []).append(name)
        owned: dict[str, list[str]] = {}
        for name, owners in sorted(self.attributes.items()):
            if name not in without:
                kinds = ", ".join(kind for kind in owners if kind != DOCUMENT) or DOCUMENT
                owned.setdefault(f"of {kinds}", []).append(name)
        lines = ["Types: " + ", ".join(self.entities)]
        lines += ["Relations:", *(f"- {', '.join(names)}: {both}" for both, names in ends.items())]
        lines += ["Attributes:", *(f"- {of}: {', '.join(names)}" for of, names in owned.items())]
        return "\n".join(lines)

    def describe(self) -> str:
        """Render the schema as lines for a prompt; equal ontologies give equal text."""
        lines = ["Entity types: " + ", ".join(self.entities), "", "Relations (head -> tail):"]
        for name, ends in sorted(self.relations.items()):
            lines.append(f"- {name}: {' | '.join(ends['head'])} -> {' | '.join(ends['tail'])}")
        lines += [f"- {name}: Intervention -> Outcome" for name in self.findings.values()]
        lines += ["", "Attributes (of which types):"]
        for name, owners in sorted(self.attributes.items()):
            lines.append(f"- {name}: {' | '.join(owners)}")
        return "\n".join(lines)
