from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.lab.measure.judgements import JUDGEMENTS, Metric
from srrag.lab.measure.scores import (
    Scores,
    broke_down,
    by_group,
    chance,
    compare,
    figure,
    readable_chance,
    score,
)

MEAN = Metric("mean", "something to judge")
POOLED = Metric("pooled", "something to judge", pooled=True)
LOWER = Metric("lower", "something to judge", "lower")
SETTLED = "settled"
LOST = {"stage": "judge", "reason": "empty", "detail": ""}


def judged(*rows: tuple[str, str, float] | tuple[str, str, float, Any]) -> pa.Table:
    """Judgements; `SETTLED` in place of a reject for those that needed no judge."""
    listed = [
        {"query_id": r[0], "metric": r[1], "item": "", "value": r[2], "reason": "",
         "asked": SETTLED not in r, "reject": r[3] if len(r) > 3 and r[3] != SETTLED else None}
        for r in rows
    ]  # fmt: skip
    return pa.Table.from_pylist(listed, schema=JUDGEMENTS)


def scored(table: pa.Table, *metrics: Metric, questions: str = "ab") -> list[Scores]:
    return score(metrics, table, list(questions))


def test_a_mean_of_questions_and_a_pooled_rate_by_hand() -> None:
    """Question a has one of one, b one of three: (1 + 1/3) / 2, and 2 / 4."""
    rows = [("a", 1.0), ("b", 1.0), ("b", 0.0), ("b", 0.0)]
    table = judged(*((q, m, v) for m in ("mean", "pooled") for q, v in rows))
    mean, pooled = (figure(s, resamples=200, seed=0) for s in scored(table, MEAN, POOLED))
    assert mean["value"] == pytest.approx(2 / 3, abs=1e-4)
    assert pooled["value"] == 0.5
    assert (pooled["low"], pooled["high"]) == (pytest.approx(1 / 3, abs=1e-4), 1.0)
    assert (mean["n"], mean["items"]) == (2, 4)


def test_what_failed_counts_with_the_worst_value() -> None:
    table = judged(
        ("a", "mean", 1.0), ("a", "mean", 0.7, LOST), ("a", "lower", 1.0), ("a", "lower", 0.0, LOST)
    )
    mean, lower = (figure(s, resamples=50, seed=0) for s in scored(table, MEAN, LOWER))
    assert (mean["value"], mean["failed"], mean["left_out"]) == (0.5, 1, 1)
    assert (lower["value"], lower["failed"], lower["better"]) == (1.0, 1, "lower")


def test_a_judge_that_broke_down_fails_all_its_metrics() -> None:
    table = judged(("a", "mean", 1.0), ("a", "lower", 0.0), ("b", "", 0.0, LOST))
    mean, lower = (figure(s, resamples=50, seed=0) for s in scored(table, MEAN, LOWER))
    assert (mean["value"], mean["failed"], lower["value"], lower["failed"]) == (0.5, 1, 0.5, 1)


def test_a_judge_that_failed_wherever_it_was_asked_has_no_result() -> None:
    """One question had no answer: nothing was asked about it, so it does not hide the failure."""
    table = judged(("a", "mean", 0.0, SETTLED), ("b", "mean", 0.0, LOST), ("b", "lower", 0.0))
    mean, lower = scored(table, MEAN, LOWER)
    assert figure(mean, resamples=10, seed=0) == {
        "value": None, "low": None, "high": None,
        "reason": "the judge failed on all 1 items that it was asked about",
        "n": 2, "left_out": 0, "items": 2, "failed": 1,
    }  # fmt: skip
    assert figure(lower, resamples=10, seed=0)["value"] == 0.0
    assert compare([mean], [mean], resamples=10, seed=0)["mean"]["value"] is None
    assert broke_down([mean, lower])
    assert not broke_down([lower])
    partly = scored(judged(("a", "mean", 1.0), ("b", "mean", 0.0, LOST)), MEAN)
    assert not broke_down(partly)


def test_no_question_to_judge_is_a_stated_result() -> None:
    (found,) = scored(judged(), MEAN)
    assert figure(found, resamples=10, seed=0) == {
        "value": None, "low": None, "high": None, "reason": "no question has something to judge",
        "n": 0, "left_out": 2, "items": 0, "failed": 0,
    }  # fmt: skip
    difference = compare([found], [found], resamples=10, seed=0)["mean"]
    assert (difference["value"], difference["n"]) == (None, 0)
    assert "p_holm" not in difference


def test_systems_are_compared_on_the_questions_that_count_for_both() -> None:
    ours = scored(judged(("a", "mean", 1.0), ("b", "mean", 1.0)), MEAN)
    theirs = scored(judged(("b", "mean", 0.0), ("c", "mean", 1.0)), MEAN, questions="abc")
    found = compare(ours, theirs, resamples=99, seed=0)["mean"]
    assert (found["value"], found["n"]) == (1.0, 1)
    assert found["p_mcnemar"] == 1.0


def test_p_values_are_corrected_for_the_number_of_metrics() -> None:
    rows = [(q, m, 1.0) for q in "abcdefgh" for m in ("mean", "pooled", "lower")]
    none = [(q, m, 0.0) for q in "abcdefgh" for m in ("mean", "pooled", "lower")]
    metrics = (MEAN, POOLED, LOWER)
    ours = scored(judged(*rows), *metrics, questions="abcdefgh")
    theirs = scored(judged(*none), *metrics, questions="abcdefgh")
    found = compare(ours, theirs, resamples=999, seed=0)
    assert found["mean"]["p"] == pytest.approx(1 / 1000)
    assert found["mean"]["p_holm"] == pytest.approx(3 / 1000)
    assert found["mean"]["p_mcnemar"] == pytest.approx(2 / 2**8)


def test_what_is_neither_better_high_nor_low_is_not_tested() -> None:
    """Its difference has no p-value, and Holm's correction does not count it."""
    rows = [(query, name, 1.0 + (query == "b")) for query in "ab" for name in ("words", "mean")]
    words = Metric("words", "an answer", "neither")
    ours = scored(judged(*rows), words, MEAN)
    theirs = scored(judged(*((q, name, 0.0) for q, name, _ in rows)), words, MEAN)
    found = compare(ours, theirs, resamples=200, seed=0)
    assert found["words"]["value"] == 1.5 and "p" not in found["words"]
    assert found["mean"]["p_holm"] == found["mean"]["p"]
    assert figure(ours[0], resamples=50, seed=0)["better"] == "neither"


def test_each_group_has_the_figures_of_its_questions() -> None:
    """Pooled: (1 + 0) / (2 + 2) of a and b, 3 / 3 of c; d counts for the second metric alone."""
    pooled = Scores(
        Metric("pooled", "x", pooled=True), ("a", "b", "c"),
        np.array([1.0, 0.0, 3.0]), np.array([2.0, 2.0, 3.0]), 7, 0, 1,
    )  # fmt: skip
    plain = Scores(Metric("plain", "x"), ("d",), np.array([0.5]), np.ones(1), 1, 0, 3)
    groups = {"a": "knee", "b": "knee", "c": "hip", "d": ""}
    found = by_group([pooled, plain], groups, resamples=50, seed=0)
    assert {name: set(each) for name, each in found.items()} == {
        "none": {"plain"}, "hip": {"pooled"}, "knee": {"pooled"},
    }  # fmt: skip
    assert found["knee"]["pooled"]["value"] == 0.25
    assert found["hip"]["pooled"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 1}


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
