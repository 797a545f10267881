import json

import pytest

from srrag.completion import read
from srrag.expand.decompose import MAX_QUESTIONS, Decomposition, render


def answer(count: int, **changed: object) -> str:
    question = {"kind": "node", "text": "Which dose?", "types": ["Intervention", "dose"]} | changed
    return json.dumps({"questions": [question] * count})


def test_kinds_of_the_three_levels() -> None:
    for kind in ("node", "triple", "community"):
        assert read(answer(1, kind=kind), Decomposition).value.questions[0].kind == kind
    assert read(answer(1, kind="edge"), Decomposition).fault is not None


@pytest.mark.parametrize("count", [0, MAX_QUESTIONS + 1])
def test_there_is_at_least_one_question_and_a_bound(count: int) -> None:
    assert read(answer(count), Decomposition).fault is not None


def test_the_schema_stands_in_the_part_that_all_questions_share() -> None:
    system, user = render("Does $x help?", "Entity types: Population")
    assert "Entity types: Population" in system
    assert "Does $x help?" in user
    assert "Entity types" not in user
