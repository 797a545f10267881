"""Forest plots: what stands where."""

from __future__ import annotations

from srrag.core.figures import Figure
from srrag.lab.report.curve import forest
from srrag.lab.report.view import benches
from tests.unit.lab.report.toy_results import toy_rows


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
