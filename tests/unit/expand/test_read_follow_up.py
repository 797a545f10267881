"""Follow-ups as a model reads them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from srrag.core.schema import CONVERSATION, empty_value
from srrag.engine.openai.engine import HttpEngine
from srrag.expand.read_follow_up import FollowUp, ReadFollowUp
from srrag.llm.read_answer import read
from srrag.retrieve.questions import question_table

STEP = ReadFollowUp(engine=HttpEngine(model="m", revision="r"))
BY_RULES = "Does a brace prevent sprains? Why is that?"
SAID = {
    "asked": "Why is that?",
    "turns": [{"question": "Does a brace prevent sprains?", "answer": "Yes, in 2 trials. [E1]"}],
    "papers": [
        {"key": "PMID 1", "line": "grade C: Braces (PMID 1, 2009)", "recalled": False},
        {"key": "b", "line": "grade C: Tape (b)", "recalled": False},
    ],
}


def table(said: object = SAID) -> pa.Table:
    return question_table([{"query_id": "1", "text": BY_RULES, "conversation": said}])


def told(text: str) -> dict[str, Any]:
    """The row of a follow-up that a model answers with this text."""
    (prompt,) = STEP.prompts(table())
    row: dict[str, Any] = STEP.parse(table(), [prompt], [read(text, FollowUp)]).to_pylist()[0]
    return row


def told_as(**changes: Any) -> dict[str, Any]:
    given = {"kind": "follow_up", "question": "Why do braces prevent sprains?", "papers": []}
    return told(json.dumps(given | changes))


def test_the_question_stands_alone_and_papers_are_recalled() -> None:
    row = told_as(papers=["[E2]", "E9", "x"])
    assert row["text"] == "Why do braces prevent sprains?"
    assert [each["recalled"] for each in row["conversation"]["papers"]] == [False, True]
    assert row["conversation"]["turns"] == SAID["turns"] and row["reject"] is None


def test_the_model_is_shown_what_was_said() -> None:
    (prompt,) = STEP.prompts(table())
    for line in (
        'Earlier answer: "Yes, in 2 trials. [E1]"',
        'E2: "grade C: Tape (b)"',
        'Message: "Why is that?"',
    ):
        assert line in prompt.user.splitlines()


def test_a_message_that_leans_on_nothing_is_asked_without_its_thanks() -> None:
    row = told_as(kind="new", question="Do casts help?", papers=["E1"])
    assert row["text"] == "Do casts help?"
    assert row["conversation"] == empty_value(CONVERSATION)
    assert told_as(kind="new", question="Do 40 casts help?")["text"] == "Why is that?", "as written"


def test_what_rules_made_of_it_stands_where_a_model_fails_or_makes_up_a_number() -> None:
    assert told_as(question="Why did 40 braces prevent sprains?")["text"] == BY_RULES
    assert told_as(question="Why did they in 2 trials?")["text"] == "Why did they in 2 trials?"
    assert told_as(question="…")["text"] == BY_RULES
    failed = told("no JSON")
    assert failed["text"] == BY_RULES and failed["conversation"] == SAID
    assert failed["reject"]["stage"] == "follow_up", "of an auxiliary step, which loses no row"


def test_a_question_without_a_conversation_asks_nothing() -> None:
    assert STEP.prompts(table(None)) == []
    assert STEP.parse(table(None), [], []).to_pylist()[0]["text"] == BY_RULES
