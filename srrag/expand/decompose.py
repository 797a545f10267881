"""Smaller questions under the schema, a kind for each level of its tree (SR-RAG, section 2.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from srrag.core.ontology import Ontology
from srrag.core.rows import Row, RowStep
from srrag.core.schema import SUBQUESTIONS, relation
from srrag.llm.completion import Answer, PromptFile
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.numbers import lost_numbers

MAX_QUESTIONS = 6
MAX_QUESTION_CHARS = 300
MAX_TYPES = 6

# Types of an anchor in the graph by part, in the PICO schema and in the neutral one.
_TYPES: Mapping[str, tuple[str, ...]] = {
    "P": ("Population", "Condition", "ClinicalConcept"),
    "I": ("Intervention", "Device", "ClinicalConcept"),
    "C": ("Comparator", "Intervention", "ClinicalConcept"),
    "O": ("Outcome", "AdverseEvent", "OutcomeMeasure"),
    "T": ("Timepoint",),
}
_NODES = ("I", "P", "O", "C")
"""Parts to look up as entities, by importance; a time alone names no entity."""
_MOST_NODES = MAX_QUESTIONS - 2

_CUT_NUMBER = re.compile(r"^[\d.,]+")

Kind = Literal["node", "triple", "community"]


class SubQuestion(Answer):
    """One look-up: an entity, a relation between two, or what a community of evidence says."""

    kind: Annotated[
        Kind,
        Means(
            "what it looks for",
            {
                "node": "an entity or its attributes, such as its dose or its definition",
                "triple": "a relation of two, such as which outcome an intervention changes",
                "community": "what the evidence as a whole says of a topic",
            },
        ),
    ]
    text: Annotated[str, Text(40, "a whole question that can be understood by itself")]
    types: Annotated[
        list[Annotated[str, Text(3, "spelled as there")]],
        Items(
            MAX_TYPES,
            "what of the schema it is about",
            "of a topic, or the schema has no name for it",
        ),
    ]


class Decomposition(Answer):
    """The smaller questions."""

    example: ClassVar[dict[str, Any] | None] = {
        "questions": [
            {
                "kind": "community",
                "text": "What is known of fluoride varnish for preventing caries in children?",
                "types": [],
            }
        ]
    }

    questions: Annotated[
        list[SubQuestion],
        Items(MAX_QUESTIONS, "the most important first; a simple question may stay a single one"),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "decompose.md", Decomposition)


@dataclass(frozen=True, kw_only=True)
class DecomposeQuestion(RowStep):
    """Break `text` into look-ups of entities, of relations, and in communities.

    Types are spelled as in the schema, and unknown ones are dropped, as is a smaller question with
    a number that the question lacks. A faulty answer rejects its row. `node_types` are the entity
    types that the look-ups of entities and relations name, to restrict the search; it is empty (no
    restriction) if any look-up names none.

    The rules make the questions from `anchors`: one per entity, one that joins the parts, and the
    question itself (or its end, if it is long) for the communities.
    """

    ontology: Ontology
    max_tokens: int = most_tokens(Decomposition)

    reads: ClassVar[tuple[str, ...]] = ("text", "anchors")
    writes: ClassVar[pa.Schema] = relation("node_types:strings", ("subquestions", SUBQUESTIONS))
    auxiliary: ClassVar[bool] = True
    slot: ClassVar[str] = "decompose"
    file: ClassVar[PromptFile] = PROMPT
    version: ClassVar[int] = 4

    def asked(self) -> dict[str, Any]:
        """The schema, and its names as the types that may be given."""
        names = tuple(map(re.escape, self._names()))
        return {
            "system": PROMPT.system(ontology=self.ontology.describe()),
            "enums": (("SubQuestion.types", names),),
        }

    def ruled(self, rows: Sequence[Row]) -> list[Decomposition]:
        """Questions made of the anchors."""
        return [Decomposition(questions=self.by_rules(**row)) for row in rows]

    def columns(self, value: Decomposition, row: Row) -> Row:
        """Each smaller question once, with the types that the schema knows."""
        kept = self._kept(value, row["text"])
        return {"node_types": self._node_types(kept), "subquestions": kept}

    def _kept(self, answer: Decomposition, asked: str) -> list[dict[str, Any]]:
        """The smaller questions without invented numbers, each once."""
        kept: dict[tuple[str, str], dict[str, Any]] = {}
        for each in answer.questions:
            if not lost_numbers(each.text, [asked]):
                made = {"kind": each.kind, "text": each.text, "types": self._known(each.types)}
                kept.setdefault((each.kind, each.text.casefold()), made)
        return list(kept.values())

    def _names(self) -> tuple[str, ...]:
        told = self.ontology
        return (*told.entities, *told.relations, *told.findings.values(), *told.attributes)

    def _known(self, types: Iterable[str]) -> list[str]:
        """Names of the schema, each once, whatever their case."""
        spelled = {name.casefold(): name for name in self._names()}
        found = (spelled.get(name.strip().casefold()) for name in types)
        return list(dict.fromkeys(name for name in found if name))

    def _node_types(self, questions: Sequence[Mapping[str, Any]]) -> list[str]:
        """Entity types of the look-ups; [] if any look-up names none."""
        named = [
            [name for name in each["types"] if name in self.ontology.entities]
            for each in questions
            if each["kind"] != "community"
        ]
        if not all(named):
            return []
        return list(dict.fromkeys(name for types in named for name in types))

    def by_rules(self, text: str, anchors: Mapping[str, Sequence[str]]) -> list[SubQuestion]:
        """The smaller questions of the rules; too long ones are left out."""
        nodes = [
            (f"What is known about {anchor}?", _TYPES[part])
            for rank in range(max(map(len, anchors.values()), default=0))
            for part in _NODES
            for anchor in anchors[part][rank : rank + 1]
        ]
        joined = _joined(anchors)
        found: list[tuple[Kind, str, tuple[str, ...]]] = [("triple", *joined)] if joined else []
        found += [("node", *node) for node in nodes[:_MOST_NODES]]
        found.append(("community", _ending(text), ()))
        return [
            SubQuestion(kind=kind, text=asked, types=self._known(types)[:MAX_TYPES])
            for kind, asked, types in found
            if len(asked) <= MAX_QUESTION_CHARS
        ]


def types_of_parts(anchors: Mapping[str, Sequence[str]], ontology: Ontology) -> list[str]:
    """The entity types of the parts that a question names, as far as the schema has them."""
    named = (name for part in _NODES if anchors[part] for name in _TYPES[part])
    return [name for name in dict.fromkeys(named) if name in ontology.entities]


def _joined(anchors: Mapping[str, Sequence[str]]) -> tuple[str, tuple[str, ...]] | None:
    """One question on how the parts relate, with the types of its ends; None for a single part."""
    first = {part: phrases[0] for part, phrases in anchors.items() if phrases}
    if "I" in first and "O" in first:
        asked = f"What is the effect of {first['I']} on {first['O']}"
        types: tuple[str, ...] = ("Intervention", "Outcome", "reports_outcome")
    elif "I" in first and ("C" in first or "P" in first):
        asked, types = f"What is the effect of {first['I']}", ("Intervention",)
    elif "O" in first and "P" in first:
        asked, types = f"What determines {first['O']}", ("Outcome", "reports_outcome")
    else:
        return None
    if "C" in first and "I" in first:
        asked += f" compared with {first['C']}"
        types += ("Comparator", "compares_to")
    if "P" in first:
        asked += f" in {first['P']}"
        types += ("Population",)
    return f"{asked}?", types


def _ending(text: str) -> str:
    """The last words of a text that fit; a vignette ends with its question."""
    words = " ".join(text.split())
    if len(words) <= MAX_QUESTION_CHARS:
        return words
    tail = words[-MAX_QUESTION_CHARS:]
    return tail.partition(" ")[2] or _CUT_NUMBER.sub("", tail) or tail
