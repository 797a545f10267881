from __future__ import annotations

from typing import Any

from srrag.lab.measure.scores import chance, readable_chance


def row(options: list[str], gold: str, subset: str = "s") -> dict[str, Any]:
    return {"options": options, "gold_option": gold, "strata": {"subset": subset}}


def test_a_guess_and_a_constant_answer_by_hand() -> None:
    """Same options: yes is right in two of three. (½ + ½ + ½) / 3 for a guess."""
    yes = [row(["yes", "no"], gold) for gold in ("yes", "no", "yes")]
    assert chance(yes) == {"all": {"chance": 0.5, "majority": 0.6667, "questions": 3}}


def test_equal_options_are_both_right_and_places_count_where_options_differ() -> None:
    """Of the first, two of four are right; of the second one of two: (½ + ½) / 2."""
    rows = [row(["a", "b", "b", "c"], "b"), row(["x", "y"], "y", "t"), row([], "")]
    found = chance(rows, "subset")
    assert found["all"] == {"chance": 0.5, "majority": 1.0, "questions": 2}
    assert (found["s"]["questions"], found["t"]["questions"]) == (1, 1)
    assert "chance 0.5000, majority 1.0000   n 2" in "\n".join(readable_chance(found))


def test_without_options_nothing_is_said() -> None:
    assert chance([row([], "")]) == {}
    assert readable_chance({}) == []
