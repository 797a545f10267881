from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.retrieve.questions import MAX_QUESTION_CHARS, question_fault, question_table
from srrag.schema import QUESTIONS

ODD = "a value of another type makes the whole table fail, not its row"


def one(**row: Any) -> dict[str, Any]:
    (read,) = question_table([row]).to_pylist()
    return read  # type: ignore[no-any-return]


def test_a_question_with_all_else_blank() -> None:
    row = one(query_id="1", text="Does it help?", unknown="dropped")
    assert row == {
        "query_id": "1", "text": "Does it help?", "topic": "", "narrative": "", "task_kind": "",
        "options": [], "gold_option": "", "picot": dict.fromkeys("PICOT", ""), "reject": None,
    }  # fmt: skip


def test_what_is_known_is_kept_in_order() -> None:
    table = question_table(
        [
            {"query_id": "1", "text": "Which?", "options": ["yes", "no"], "gold_option": "no"},
            {
                "query_id": "2",
                "text": "What?",
                "picot": {**dict.fromkeys("PICOT", ""), "P": "adults"},
            },
        ]
    )
    assert table.schema.equals(QUESTIONS)
    assert table["options"].to_pylist() == [["yes", "no"], []]
    assert table["picot"].to_pylist()[1]["P"] == "adults"


def test_no_question() -> None:
    assert question_table([]).schema.equals(QUESTIONS)


@pytest.mark.parametrize("text", ["", "  \n", "?!…", "🦵"])
def test_a_question_without_a_word_is_rejected(text: str) -> None:
    row = one(query_id="1", text=text)
    assert row["reject"]["stage"] == "questions"
    assert row["reject"]["reason"] == "empty_question"


def test_a_question_may_be_as_long_as_the_limit() -> None:
    assert one(query_id="1", text="x" * MAX_QUESTION_CHARS)["reject"] is None
    reject = one(query_id="1", text="x" * (MAX_QUESTION_CHARS + 1))["reject"]
    assert reject["reason"] == "long_question"
    assert str(MAX_QUESTION_CHARS + 1) in reject["detail"]


def test_the_others_are_not_touched() -> None:
    rows = [{"query_id": str(n), "text": text} for n, text in enumerate(["knee", "", "hip"])]
    table = question_table(rows)
    assert table["query_id"].to_pylist() == ["0", "1", "2"]
    assert [reject is None for reject in table["reject"].to_pylist()] == [True, False, True]


@pytest.mark.parametrize(
    "text",
    [pytest.param(value) for value in (5, ["knee"], {"a": 1}, "knee\ud800", True)],
)
def test_a_text_that_is_none_is_a_reject_row(text: Any) -> None:
    row = one(query_id="1", text=text)
    assert row["reject"]["stage"] == "questions"
    assert row["text"] == ""


def test_null_is_a_blank() -> None:
    table = question_table([{"query_id": "1", "text": None, "topic": None, "options": None}])
    assert [table[name].null_count for name in ("text", "topic", "options")] == [0, 0, 0]


@pytest.mark.parametrize("values", [{"topic": 3}, {"options": 5}, {"picot": "adults"}])
def test_other_columns_of_an_odd_type_reject_their_row_alone(values: dict[str, Any]) -> None:
    good = {"query_id": "2", "text": "hip"}
    table = question_table([{"query_id": "1", "text": "knee", **values}, good])
    assert [row is None for row in table["reject"].to_pylist()] == [False, True]


@given(st.text(max_size=30))
def test_a_fault_is_a_lack_of_words(text: str) -> None:
    fault = question_fault(text)
    assert (fault is None) == any(char.isalnum() for char in text)
