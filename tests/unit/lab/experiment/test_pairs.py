"""Pairs of rows: names that lists multiply, McNemar's counts, Holm by group."""

from __future__ import annotations

import numpy as np
import pytest

from srrag.core.errors import UsageError
from srrag.lab.experiment.table import expanded_pairs, paired, readable_pairs
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Scores

QUESTIONS = tuple(f"q{n}" for n in range(24))
GROUPS = {query: "a" if n < 12 else "b" for n, query in enumerate(QUESTIONS)}


def right(*places: int) -> list[Scores]:
    """Scores of a system that is right on the questions of these places."""
    parts = np.isin(np.arange(24), places).astype(np.float64)
    metric = Metric("choice_accuracy", "options")
    return [Scores(metric, QUESTIONS, parts, np.ones(24), 24, 0, 0)]


def test_a_name_that_lists_multiply_pairs_rows_of_the_same_settings() -> None:
    rows = {
        "none": right(), "plain, k=1": right(0), "plain, k=4": right(1, 2),
        "filter, k=1": right(0, 3), "filter, k=4": right(2, 13), "filters": right(5),
    }  # fmt: skip
    pairs = expanded_pairs({"filter": "plain", "plain": "none"}, [*rows])
    found = paired(rows, pairs, {})
    assert [(each.row, each.against, each.only, each.only_other) for each in found] == [
        ("filter, k=1", "plain, k=1", 1, 0), ("filter, k=4", "plain, k=4", 1, 1),
        ("plain, k=1", "none", 1, 0), ("plain, k=4", "none", 2, 0),
    ]  # fmt: skip


def test_p_values_are_corrected_within_a_group() -> None:
    rows = {"none": right(), "ten": right(*range(10)), "two": right(0, 13)}
    found = {
        (each.row, each.group): each
        for each in paired(rows, [("ten", "none"), ("two", "none")], GROUPS)
    }
    assert {group for _, group in found} == {"a", "b", "all"}
    ten = found["ten", "a"]
    assert ten.p_mcnemar == pytest.approx(2 * 0.5**10)
    assert ten.p_holm == pytest.approx(2 * ten.p_mcnemar)  # two pairs in its group
    assert found["two", "a"].p_holm == found["two", "a"].p_mcnemar == 1.0
    assert found["ten", "b"].p_holm == 1.0
    assert "Holm" in readable_pairs(list(found.values()))


def test_a_row_that_is_not_there_is_named_and_one_left_out_is_not_missed() -> None:
    with pytest.raises(UsageError, match=r"sweep\.pairs: 'pla' is no row; there are plain, k=1"):
        expanded_pairs({"plain": "pla"}, ["plain, k=1"])
    assert expanded_pairs({"filter": "plain"}, ["plain, k=1"], {"filter"}) == []
