"""Metrics by stratum against sums worked by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from srrag.lab.report.curve import MIN_QUESTIONS, UNSTATED, Breakdown, breakdowns
from srrag.lab.report.results import QUESTIONS


def questions(values: list[tuple[str, str, float | None, float, str | None]]) -> pa.Table:
    rows = [
        {"row": row, "query_id": query, "metric": "m", "value": value, "weight": weight,
         "reason": "", "condition": condition, "grade": None, "certainty": None}
        for row, query, value, weight, condition in values
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=QUESTIONS)


def broken_down(table: pa.Table, rows: list[str]) -> list[Breakdown]:
    return breakdowns(table, rows, "m", resamples=200, seed=0)


def test_a_mean_is_weighted_and_a_question_without_value_does_not_count() -> None:
    table = questions([
        ("a", "1", 1.0, 3.0, "ACL"), ("a", "2", 0.0, 1.0, "ACL"), ("a", "3", None, 0.0, "ACL"),
        ("b", "1", 0.5, 1.0, "ACL"), ("a", "4", 0.2, 1.0, None),
    ])  # fmt: skip
    (by_condition,) = broken_down(table, ["a", "b"])
    acl, unstated = by_condition.strata
    assert (acl.name, acl.questions, unstated.name) == ("ACL", 2, UNSTATED)
    assert [figure.value for figure in acl.figures] == [0.75, 0.5]
    assert acl.figures[0].low is None, "two questions have no interval"
    assert unstated.figures[0].value == 0.2
    assert unstated.figures[1].value is None and unstated.figures[1].reason


def test_enough_questions_have_an_interval_around_their_mean() -> None:
    values = np.linspace(0, 1, MIN_QUESTIONS)
    table = questions([("a", str(n), float(v), 1.0, "x") for n, v in enumerate(values)])
    figure = broken_down(table, ["a"])[0].strata[0].figures[0]
    assert figure.value == pytest.approx(0.5)
    assert figure.low is not None and figure.high is not None
    assert 0 <= figure.low < 0.5 < figure.high <= 1


def test_what_no_question_states_is_left_out() -> None:
    assert broken_down(questions([("a", "1", 1.0, 1.0, None)]), ["a"]) == []
    assert broken_down(QUESTIONS.empty_table(), ["a"]) == []
