from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.config.factory import ontology
from srrag.core.step import Place
from srrag.engine.openai.engine import HttpEngine
from srrag.expand.decompose import MAX_QUESTIONS, DecomposeQuestion, Decomposition
from srrag.expand.picot_anchors import FindAnchors
from srrag.llm.read_answer import read
from tests.unit.expand.asking import (
    HOSTILE,
    anchored,
    baseline_faults,
    by_rules,
    questions,
    scripted,
    with_reject,
)

QUESTION = "Does taping reduce pain more than sham in runners after 6 weeks?"


STEP = DecomposeQuestion(ontology=ontology())


def answer(count: int, **changed: object) -> str:
    question = {"kind": "node", "text": "Which dose?", "types": ["Intervention", "dose"]} | changed
    return json.dumps({"questions": [question] * count})


def reply(*found: tuple[str, str, list[str]]) -> str:
    names = ("kind", "text", "types")
    return json.dumps({"questions": [dict(zip(names, each, strict=True)) for each in found]})


def asked(text: str, tmp_path: Path, *replies: str) -> dict[str, Any]:
    (row,), _ = scripted(STEP, anchored(text), tmp_path, lambda call: replies[call.attempt])
    return row


def test_kinds_of_the_three_levels() -> None:
    for kind in ("node", "triple", "community"):
        assert read(answer(1, kind=kind), Decomposition).value.questions[0].kind == kind
    assert read(answer(1, kind="edge"), Decomposition).fault is not None


def test_there_is_at_least_one_question_and_a_bound() -> None:
    assert read(answer(0), Decomposition).fault is not None
    assert len(read(answer(MAX_QUESTIONS + 1), Decomposition).value.questions) == MAX_QUESTIONS


def test_the_schema_stands_in_the_part_that_all_questions_share() -> None:
    (prompt,) = STEP.prompts(anchored("Does $x help?"))
    assert "Population" in prompt.system and "Population" not in prompt.user
    assert "Does $x help?" in prompt.user
    names = dict(prompt.enums)["SubQuestion.types"]
    assert {"Population", "dose", "reports_outcome"} <= set(names)


def test_types_are_those_of_the_schema_in_its_spelling(tmp_path: Path) -> None:
    made = reply(
        ("triple", "Which outcome?", ["outcome", "Starship", "reports_outcome", "Outcome"]),
        ("node", "Which dose?", ["Intervention", "dose"]),
        ("community", "What is known?", ["Population"]),
    )
    row = asked(QUESTION, tmp_path, made)
    types = [each["types"] for each in row["subquestions"]]
    assert types == [["Outcome", "reports_outcome"], ["Intervention", "dose"], ["Population"]]
    assert row["node_types"] == ["Outcome", "Intervention"]


def test_a_look_up_without_an_entity_type_lifts_the_limit(tmp_path: Path) -> None:
    made = reply(("node", "Which?", ["Population"]), ("triple", "How?", ["reports_outcome"]))
    assert asked(QUESTION, tmp_path, made)["node_types"] == []


def test_repetitions_count_once_and_order_stays(tmp_path: Path) -> None:
    made = reply(("node", "A?", ["dose"]), ("triple", "B?", []), ("node", "a?", []))
    row = asked(QUESTION, tmp_path, made)
    assert [(each["kind"], each["text"]) for each in row["subquestions"]] == [
        ("node", "A?"),
        ("triple", "B?"),
    ]


def test_a_number_of_its_own_costs_its_question_alone(tmp_path: Path) -> None:
    made = reply(("node", "After 12 weeks?", []), ("node", "After six weeks?", []))
    row = asked(QUESTION, tmp_path, made)
    assert [each["text"] for each in row["subquestions"]] == ["After six weeks?"]
    assert row["reject"] is None


def test_without_an_answer_the_row_is_rejected(tmp_path: Path) -> None:
    row = asked(QUESTION, tmp_path, *["Sorry, I cannot help."] * 2)
    assert (row["reject"]["stage"], row["reject"]["reason"]) == ("decompose", "refusal")
    assert (row["subquestions"], row["node_types"]) == ([], [])


def test_rules_ask_for_entities_relations_and_the_whole() -> None:
    parts = {"P": ["runners"], "I": ["taping"], "C": ["sham"], "O": ["pain"], "T": ["6 weeks"]}
    (row,) = by_rules(STEP, anchored(QUESTION, **parts))
    assert [(each["kind"], each["text"]) for each in row["subquestions"]] == [
        ("triple", "What is the effect of taping on pain compared with sham in runners?"),
        ("node", "What is known about taping?"),
        ("node", "What is known about runners?"),
        ("node", "What is known about pain?"),
        ("node", "What is known about sham?"),
        ("community", QUESTION),
    ]
    assert row["subquestions"][1]["types"] == ["Intervention", "Device"]
    assert set(row["node_types"]) <= set(ontology().entities)


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ({"I": ["taping"], "P": ["runners"]}, "What is the effect of taping in runners?"),
        ({"O": ["pain"], "P": ["runners"]}, "What determines pain in runners?"),
        ({"I": ["taping"], "C": ["rest"]}, "What is the effect of taping compared with rest?"),
        ({"O": ["pain"]}, None),
        ({"T": ["6 weeks"]}, None),
        ({}, None),
    ],
)
def test_rules_join_what_there_is(parts: dict[str, list[str]], joined: str | None) -> None:
    (row,) = by_rules(STEP, anchored("Why?", **parts))
    triples = [each["text"] for each in row["subquestions"] if each["kind"] == "triple"]
    assert triples == ([joined] if joined else [])
    assert row["subquestions"][-1] == {"kind": "community", "text": "Why?", "types": []}


def test_the_neutral_schema_has_types_of_its_own() -> None:
    step = DecomposeQuestion(ontology=ontology("neutral"))
    (row,) = by_rules(step, anchored("Why?", P=["runners"], O=["pain"]))
    nodes = [each["types"] for each in row["subquestions"] if each["kind"] == "node"]
    assert nodes == [["ClinicalConcept"], ["AdverseEvent", "OutcomeMeasure"]]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_rules_survive_any_question(text: str) -> None:
    table = FindAnchors().open(Place())(questions(text))
    (row,) = by_rules(STEP, table)
    # A single number of 4000 digits cannot be asked in part.
    kinds = [each["kind"] for each in row["subquestions"]]
    assert row["reject"] is None and ("community" in kinds) == (not text.isdigit())
    assert baseline_faults(STEP, table) == []


def test_what_was_rejected_before_is_not_asked() -> None:
    table = with_reject(anchored(QUESTION))
    assert STEP.prompts(table) == []
    assert by_rules(STEP, table)[0]["reject"]["stage"] == "before"


def test_every_relation_that_the_prompt_lists_may_be_named(tmp_path: Path) -> None:
    (prompt,) = DecomposeQuestion(ontology=ontology(), engine=HttpEngine(model="m")).prompts(
        anchored(QUESTION)
    )
    _, relations, _ = prompt.system.split("Schema\n")[1].split("\n\n", 2)
    listed = {line.split(":")[0].removeprefix("- ") for line in relations.splitlines()[1:]}
    assert "reduces" in listed and listed <= set(dict(prompt.enums)["SubQuestion.types"])
    row = asked(QUESTION, tmp_path, reply(("triple", "What reduces pain?", ["reduces"])))
    assert row["subquestions"][0]["types"] == ["reduces"]
