from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from srrag.llm.read_answer import read
from srrag.systems.rethinking.rationale import MAX_STEPS, Query, Rationale, WriteRationale, render
from tests.unit.expand.asking import (
    HOSTILE,
    baseline_faults,
    by_rules,
    questions,
    scripted,
    with_reject,
)


def test_the_query_is_the_whole_response_with_the_words_of_the_option() -> None:
    answer = read('{"steps": ["One.", "Two."], "answer": "B"}', Rationale).value
    assert answer.query(["Aspirin", "Insulin"]) == "One. Two. Insulin"
    assert answer.query([]) == "One. Two. B"


def test_there_is_reasoning_and_a_bound() -> None:
    assert read('{"steps": [], "answer": "A"}', Rationale).fault is not None
    many = json.dumps({"steps": ["x"] * (MAX_STEPS + 1), "answer": "A"})
    assert len(read(many, Rationale).value.steps) == MAX_STEPS


def test_options_are_labelled() -> None:
    assert render("Q?", ["yes", "no"])[1].endswith('Options: {"A": "yes", "B": "no"}')
    assert "Options" not in render("Q?")[1]
    with pytest.raises(ValueError, match="27 options"):
        render("Q?", ["x"] * 27)


def test_a_model_reasons_and_is_named(tmp_path: Path) -> None:
    table = questions("Which drug?", options=["Aspirin", "Insulin"])
    steps = ["Chest pain suggests ischaemia.", "Aspirin inhibits platelets."]
    (row,), _ = scripted(
        WriteRationale(),
        table,
        tmp_path,
        lambda call: json.dumps({"steps": steps, "answer": "A"}),
    )
    assert row["rationale"] == " ".join([*steps, "Aspirin"])
    assert row["rationale_model"] == "toy: toy"
    assert row["reject"] is None


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("rationale", ["One."]), ("both", ["Which drug? One."]), ("fused", ["Which drug?", "One."]),
    ],
)  # fmt: skip
def test_what_is_searched_for(tmp_path: Path, query: Query, texts: list[str]) -> None:
    (row,), _ = scripted(
        WriteRationale(query=query),
        questions("Which drug?"),
        tmp_path,
        lambda call: '{"steps": ["One."], "answer": ""}',
    )
    assert row["rationale_queries"] == texts


def test_by_rules_the_question_is_searched_for_once() -> None:
    for query in get_args(Query):
        (row,) = by_rules(WriteRationale(query=query), questions("Which drug?"))
        assert {*row["rationale_queries"]} == {"Which drug?"}
    with pytest.raises(ValueError, match="query is 'x'"):
        WriteRationale(query="x")  # type: ignore[arg-type]


def test_a_fault_rejects_its_row_alone(tmp_path: Path) -> None:
    good, bad = scripted(
        WriteRationale(),
        questions("Which drug?", "Why so?"),
        tmp_path,
        lambda call: "" if "Why" in call.prompt.user else '{"steps": ["One."], "answer": ""}',
    )[0]
    assert (good["rationale"], good["reject"]) == ("One.", None)
    assert (bad["rationale"], bad["rationale_model"]) == ("Why so?", ""), "the question itself"
    assert (bad["reject"]["stage"], bad["reject"]["reason"]) == ("rationale", "empty")


def test_more_options_than_labels_reject_their_row() -> None:
    (row,) = by_rules(WriteRationale(), questions("Which?", options=["x"] * 27))
    assert row["reject"]["reason"] == "too_many_options"
    assert "27 options" in row["reject"]["detail"]


def test_rules_search_for_the_question_itself_and_say_so() -> None:
    text = "Does high-load training\n help?"
    (row,) = by_rules(WriteRationale(), questions(text))
    assert (row["rationale"], row["rationale_model"]) == (" ".join(text.split()), "rules")


def test_rules_take_what_fits_of_a_long_question() -> None:
    text = "word " * 799
    (row,) = by_rules(WriteRationale(), questions(text))
    assert text.startswith(row["rationale"])
    assert 2300 < len(row["rationale"]) <= 2400 + MAX_STEPS


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_rules_survive_any_question(text: str) -> None:
    table = questions(text)
    assert baseline_faults(WriteRationale(), table) == []
    assert by_rules(WriteRationale(), table)[0]["reject"] is None


def test_what_was_rejected_before_is_not_asked() -> None:
    table = with_reject(questions("Why?", options=["x"] * 27))
    assert WriteRationale().prompts(table) == []
    assert by_rules(WriteRationale(), table)[0]["reject"]["stage"] == "before"
