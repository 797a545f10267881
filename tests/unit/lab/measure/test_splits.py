from __future__ import annotations

import pytest

from srrag.lab.measure.references import questions_of, split_of

QUESTIONS = [{"query_id": f"q{n}"} for n in range(300)]


def test_every_question_is_on_one_side() -> None:
    train, test = (questions_of(QUESTIONS, split) for split in ("train", "test"))
    assert sorted(row["query_id"] for row in train + test) == sorted(
        row["query_id"] for row in QUESTIONS
    )
    assert 70 < len(test) < 130
    assert questions_of(iter(QUESTIONS), None) == QUESTIONS


def test_a_question_keeps_its_side_among_others() -> None:
    assert questions_of(QUESTIONS[50:60], "test") == [
        row for row in QUESTIONS[50:60] if row in questions_of(QUESTIONS, "test")
    ]
    assert (split_of("acl-03"), split_of("acl-01")) == ("test", "train")


def test_another_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"bench\.split=dev"):
        questions_of(QUESTIONS, "dev")
