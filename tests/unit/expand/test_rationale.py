import pytest

from srrag.completion import read
from srrag.expand.rationale import MAX_STEPS, Rationale, render


def test_the_query_is_the_reasoning_alone() -> None:
    answer = read('{"steps": ["One.", "Two."], "answer": "B"}', Rationale).value
    assert answer.query() == "One. Two."


def test_there_is_reasoning_and_a_bound() -> None:
    for steps in ([], ["x"] * (MAX_STEPS + 1)):
        assert read(str({"steps": steps, "answer": ""}).replace("'", '"'), Rationale).fault


def test_options_are_labelled() -> None:
    assert render("Q?", ["yes", "no"])[1].endswith('Options: {"A": "yes", "B": "no"}')
    assert render("Q?")[1].endswith("Options: {}")
    with pytest.raises(ValueError, match="27 options"):
        render("Q?", ["x"] * 27)
