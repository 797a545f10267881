"""The plan of a search in one call: parts of the question, look-ups, and passages as in papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa

from srrag.core.ontology import Ontology
from srrag.core.rows import Row, RowStep
from srrag.core.schema import ANCHORS, SUBQUESTIONS, relation
from srrag.expand.decompose import DecomposeQuestion, SubQuestion, types_of_parts
from srrag.expand.picot_anchors import PARTS, QuestionParts, locate, rule_anchors
from srrag.llm.completion import Answer, PromptFile
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.numbers import told_numbers

MAX_PASSAGES = 3
"""Table S3 of sr-rag."""

Lookup = Annotated[str, Text(15, "a thing by its name in papers")]
Link = Annotated[str, Text(25, "a question on how two things relate")]
Passage = Annotated[str, Text(110, "up to 6 sentences")]


class SearchPlan(Answer):
    """What is searched for beside the question itself."""

    example: ClassVar[dict[str, Any] | None] = {
        "parts": {"people": ["kids"], "treatment": ["fluoride paint"], "comparator": [],
                  "outcome": ["holes"], "time": []},
        "things": ["fluoride varnish", "dental caries in children"],
        "links": ["What is the effect of fluoride varnish on caries increment in children?"],
        "topic": "What is known of fluoride varnish for preventing caries in children?",
        "passages": [
            "Fluoride varnish was applied to the primary teeth of children. Caries increment was "
            "lower with varnish than without treatment. Fewer surfaces became carious during "
            "follow-up. Adverse events were rare and mild."
        ],
    }  # fmt: skip

    parts: Annotated[QuestionParts, Means("words of the question, by part")]
    things: Annotated[
        list[Lookup], Items(4, "what to look up, the most telling first", "there is none")
    ]
    links: Annotated[list[Link], Items(2, "how the things relate", "the question names only one")]
    topic: Annotated[str, Text(30, "what the evidence as a whole is to be asked, as a question")]
    passages: Annotated[
        list[Passage],
        Items(MAX_PASSAGES, "each in other words, as another paper would", "none can be written"),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "plan_search.md", SearchPlan)
TEMPERATURE = 0.3
"""Table S3: for other words."""


@dataclass(frozen=True, kw_only=True)
class PlanSearch(RowStep):
    """Plan the search for `text` in one call, from the question alone.

    `anchors` are words of the question that name its parts, what it does not hold is dropped;
    `subquestions` the look-ups in the graph, `node_types` the types of the parts that the question
    names; `hyde_passages` passages as they could stand in papers, for their vectors. A sentence
    with a number that the question lacks is dropped. FindAnchors, DecomposeQuestion and WriteHyde
    fill the same columns by a call each; by rules they are what the first two write, and no
    passage. A faulty answer rejects its row.
    """

    ontology: Ontology
    max_tokens: int = most_tokens(SearchPlan)

    reads: ClassVar[tuple[str, ...]] = ("text",)
    writes: ClassVar[pa.Schema] = relation(
        ("anchors", ANCHORS), "node_types:strings", ("subquestions", SUBQUESTIONS),
        "hyde_passages:strings",
    )  # fmt: skip
    auxiliary: ClassVar[bool] = True
    slot: ClassVar[str] = "plan"
    file: ClassVar[PromptFile] = PROMPT
    temperature: ClassVar[float] = TEMPERATURE
    version: ClassVar[int] = 4

    def ruled(self, rows: Sequence[Row]) -> list[Row]:
        """The anchors and look-ups of the rules, and no passage."""
        asked = [row["text"] for row in rows]
        lookups = DecomposeQuestion(ontology=self.ontology)
        return [
            _plan(found, lookups.by_rules(text, _held(found, text)))
            for text, found in zip(asked, rule_anchors(asked), strict=True)
        ]

    def columns(self, value: SearchPlan, row: Row) -> Row:
        """The columns of a plan."""
        question = row["text"]
        anchors = value.parts.anchors(question)
        lookups = [
            (kind, each)
            for kind, said in (("triple", value.links), ("node", value.things),
                               ("community", [value.topic]))
            for each in told_numbers(said, [question])
        ]  # fmt: skip
        return {
            "anchors": anchors,
            "node_types": types_of_parts(anchors, self.ontology),
            "subquestions": [{"kind": kind, "text": text, "types": []} for kind, text in lookups],
            "hyde_passages": told_numbers(value.passages, [question]),
        }


def _held(anchors: Mapping[str, Sequence[str]], question: str) -> dict[str, list[str]]:
    """The anchors that the question holds."""
    found = {part: [locate(each, question) for each in said] for part, said in anchors.items()}
    return {part: [each for each in said if each] for part, said in found.items()}


def _plan(anchors: Mapping[str, Sequence[str]], lookups: Sequence[SubQuestion]) -> Row:
    """The plan of the rules."""
    by_kind: dict[str, list[str]] = {"node": [], "triple": [], "community": []}
    for each in lookups:
        by_kind[each.kind].append(each.text)
    return {
        "parts": {name: list(anchors[part]) for name, part in zip(PARTS, "PICOT", strict=True)},
        "things": by_kind["node"],
        "links": by_kind["triple"],
        "topic": by_kind["community"][0],
        "passages": [],
    }
