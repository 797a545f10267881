from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from srrag.core.step import Place
from srrag.engine.openai.engine import HttpEngine
from srrag.expand.decompose import DecomposeQuestion
from srrag.expand.picot_anchors import PARTS, FindAnchors
from srrag.expand.plan_search import PlanSearch, SearchPlan
from srrag.llm.read_answer import read
from srrag.retrieve.questions import question_table
from tests.unit.expand.test_decompose import ontology

STEP = PlanSearch(ontology=ontology(), engine=HttpEngine(model="m", revision="r"))
QUESTIONS = [
    "Does eccentric loading reduce pain more than stretching in adults with Achilles tendinopathy?",
    "How long may an acute lateral ankle sprain be immobilised?",
    "What is the capital of the moon?",
    "Should bed rest be prescribed for acute low back pain?",
]


def table(*texts: str) -> pa.Table:
    return question_table([{"query_id": str(n), "text": text} for n, text in enumerate(texts)])


def planned(text: str, value: dict[str, Any]) -> dict[str, Any]:
    (prompt,) = STEP.prompts(table(text))
    row: dict[str, Any] = STEP.parse(
        table(text), [prompt], [read(json.dumps(value), SearchPlan)]
    ).to_pylist()[0]
    return row


def test_a_plan_has_the_words_of_the_question_look_ups_and_passages() -> None:
    parts = {"people": ["kids"], "treatment": ["Grommets", "tubes"], "comparator": [],
             "outcome": [], "time": []}  # fmt: skip
    row = planned(
        "Do grommets help kids?",
        {
            "parts": parts,
            "things": ["tympanostomy tubes"],
            "links": ["What do tympanostomy tubes change in children?"],
            "topic": "What is known of tympanostomy tubes?",
            "passages": ["Tubes were inserted.", "Hearing improved.", "Tubes were inserted."],
        },
    )
    assert row["anchors"] == {"P": ["kids"], "I": ["grommets"], "C": [], "O": [], "T": []}
    assert [each["kind"] for each in row["subquestions"]] == ["triple", "node", "community"]
    assert row["hyde_passages"] == ["Tubes were inserted.", "Hearing improved."]
    assert {"Intervention", "Population"} <= {*row["node_types"]}
    assert "Outcome" not in row["node_types"]
    assert row["reject"] is None


def test_what_a_plan_makes_up_in_numbers_is_dropped() -> None:
    row = planned(
        "Does drug A help within 6 weeks?",
        {
            "parts": {name: [] for name in PARTS},
            "things": ["drug A 500 mg", "drug A"],
            "links": ["What does drug A change within 12 weeks?", "Does drug A help in six weeks?"],
            "topic": "What is known of drug A after 24 months?",
            "passages": ["Drug A helped at 6 weeks. The RR was 0.3.", "RR 0.3."],
        },
    )
    assert [(each["kind"], each["text"]) for each in row["subquestions"]] == [
        ("triple", "Does drug A help in six weeks?"),
        ("node", "drug A"),
    ]
    assert row["hyde_passages"] == ["Drug A helped at 6 weeks."]


def test_one_call_a_question_and_no_word_of_a_schema_in_it() -> None:
    (prompt,) = STEP.prompts(table(QUESTIONS[0]))
    assert not any(name in prompt.system for name in ("Intervention", "reports_outcome", "node"))


def test_by_rules_it_finds_what_the_rules_of_its_parts_find() -> None:
    made = PlanSearch(ontology=ontology()).open(Place())(table(*QUESTIONS)).to_pylist()
    anchors = FindAnchors().open(Place())(table(*QUESTIONS))
    apart = DecomposeQuestion(ontology=ontology()).open(Place())(anchors).to_pylist()
    for row, other in zip(made, apart, strict=True):
        assert row["anchors"] == other["anchors"]
        assert {*row["node_types"]} == {*other["node_types"]}
        found, expected = (
            [(each["kind"], each["text"]) for each in one["subquestions"]] for one in (row, other)
        )
        assert found == expected
        assert row["hyde_passages"] == []


def test_a_faulty_plan_rejects_its_row_and_the_question_goes_on_without_it() -> None:
    (prompt,) = STEP.prompts(table(QUESTIONS[0]))
    out = STEP.parse(table(QUESTIONS[0]), [prompt], [read("no", SearchPlan)]).to_pylist()[0]
    assert out["reject"]["stage"] == "plan"
    assert STEP.auxiliary
