"""Curves: which rows make a line, and where its points stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.figures import Figure
from srrag.lab.report.curve import (
    MIN_QUESTIONS,
    UNSTATED,
    Breakdown,
    Stratum,
    breakdowns,
    curves,
    forest,
    group_curves,
)
from srrag.lab.report.results import QUESTIONS
from srrag.lab.report.row import Row
from srrag.lab.report.view import BenchmarkView, benches
from tests.unit.lab.report.toy_results import HOSTILE, toy_rows


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


def row(name: str, value: float | None, *overrides: str, **more: Any) -> Row:
    figure = (
        Figure(value=None, reason="none")
        if value is None
        else Figure(value=value, low=value - 0.1, high=value + 0.1)
    )
    return Row(
        name=name, bench="toy", command="srrag", overrides=overrides,
        metrics={"choice_accuracy": figure}, **more,
    )  # fmt: skip


def toy() -> BenchmarkView:
    """Two systems by k, of one of which a value is missing, and a baseline without k."""
    k = "answering.Rules.select.k"
    rows = [row("none", 0.3)]
    rows += [row(f"plain, k={n}", v, "p=plain", f"{k}={n}", baseline="none")
             for n, v in ((8, 0.6), (1, 0.4), (2, 0.5))]  # fmt: skip
    rows += [row(f"both, k={n}", v, "p=both", f"{k}={n}", baseline="none")
             for n, v in ((1, 0.5), (2, None), (8, 0.7))]  # fmt: skip
    rows.append(row("alone, k=2", 0.9, "p=alone", f"{k}=2", baseline="none"))
    (bench,) = benches(rows)
    return bench


def test_rows_that_differ_in_one_number_are_a_line() -> None:
    (plot,) = curves(toy())
    assert plot.key == "k" and plot.references == (("none", 0.3),)
    lines = {line.name: [(p.x, p.value) for p in line.points] for line in plot.lines}
    assert lines == {
        "plain": [(1.0, 0.4), (2.0, 0.5), (8.0, 0.6)], "both": [(1.0, 0.5), (8.0, 0.7)],
    }  # fmt: skip


def test_settings_stand_by_their_logarithm_and_bands_go_round() -> None:
    (plot,) = curves(toy())
    assert [plot.across(x) for x in plot.xs] == pytest.approx([0, 1 / 3, 1])
    assert plot.at(plot.low) == 0 and plot.at(plot.high) == 1
    first = plot.lines[0]
    assert len(plot.path(first, 0, 100, 0, 100).split()) == 3
    assert len(plot.band(first, 0, 100, 0, 100).split()) == 6


def test_rows_without_a_number_make_no_curve() -> None:
    (bench,) = benches([row("a", 0.3, "pipeline=bm25"), row("b", 0.4, "pipeline=dense")])
    assert curves(bench) == ()


def test_a_page_with_curves_is_valid_and_escapes_names() -> None:
    from srrag.lab.report.page import _environment

    k = "answering.Rules.select.k"
    name = HOSTILE[:40]
    (bench,) = benches([row(f"{name}, k={n}", 0.5, f"{k}={n}") for n in (1, 2)])
    macros = (
        _environment()
        .get_template("report.html")
        .make_module(
            {"colours": ("#000",) * 6, "dashes": ("",) * 6, "grades": {}}
            | dict.fromkeys(("policy", "script", "style", "title", "summary", "versions"), "")
            | {name: [] for name in ("sections", "cost_names", "origins", "lists", "blobs")}
        )
    )
    shown = str(macros.curve(curves(bench)[0]))  # type: ignore[attr-defined]
    assert "<polyline" in shown and "<polygon" in shown and "<img" not in shown


def test_a_set_has_a_curve_of_its_own_figures() -> None:
    bench = toy()
    values = [0.1 * n for n in range(len(bench.rows))]
    stratum = Stratum("exam", 9, tuple(Figure(value=v, low=v, high=v) for v in values))
    (plot,) = group_curves(bench, bench.main[0], [stratum])
    assert plot.title == "choice accuracy by k, exam" and plot.group == "exam"
    assert plot.references == (("none", 0.0),)
    by_name = {line.name: [(p.x, p.value) for p in line.points] for line in plot.lines}
    assert by_name["plain"] == [(1.0, values[2]), (2.0, values[3]), (8.0, values[1])]


def test_marks_scale_and_baseline() -> None:
    (bench,) = benches(toy_rows())
    plot = forest(bench, bench.columns[0])
    assert [mark.value for mark in plot.marks] == [0.5, 0.9, None]
    assert [mark.significant for mark in plot.marks] == ["", "▲", ""]
    assert plot.baseline == 0.5
    assert plot.at(plot.low) == 0 and plot.at(plot.high) == 1
    assert plot.low < 0.25 and plot.high == 1, "a share has no scale beyond 1"
    assert all(plot.low <= tick <= plot.high for tick in plot.ticks) and len(plot.ticks) > 1


def test_a_metric_without_any_value_and_a_long_name_have_a_mark() -> None:
    figure = Figure(value=None, reason="none")
    name = "srrag, engine=http, k=16 $x$"
    row = toy_rows()[0].model_copy(update={"metrics": {"m": figure}, "name": name})
    plot = forest(benches([row])[0], benches([row])[0].columns[0])
    assert plot.marks[0].label.endswith("k=16 $x$") and len(plot.marks[0].label) <= 22
