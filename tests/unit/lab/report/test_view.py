"""What a table shows: columns, marks, notes; nothing is ever NaN, and nothing lost is left out."""

from __future__ import annotations

from typing import Any

import pytest

from srrag.core.figures import BaselineDifference, Figure
from srrag.lab.report.view import MAX_MAIN, benches, explained, mark_of, table
from tests.unit.lab.report.toy_results import toy_rows


def test_the_table_of_the_toy() -> None:
    (bench,) = benches(toy_rows())
    assert [column.title for column in bench.columns] == ["coverage", "nuggets"]
    assert [column.questions for column in bench.columns] == ["2", "0"]
    shown = table(bench, bench.columns)
    plain, ours, lost = shown.lines
    assert [line.is_baseline for line in shown.lines] == [True, False, False]
    assert (ours.cells[0].text, ours.cells[0].interval) == ("0.900", "0.800–1.000")
    assert ours.cells[0].mark == "▲" and plain.cells[0].mark == ""
    assert ours.cells[1].text == "–"
    assert shown.notes[ours.cells[1].note - 1] == "no question has nuggets"
    assert shown.notes[ours.cells[0].note - 1] == "not judged: 1, counted as worst"
    assert lost.cells == lost.costs == (), "why it failed stands in their place"


def test_costs_say_what_failed_and_what_is_not_known() -> None:
    (bench,) = benches(toy_rows())
    shown = table(bench, bench.main)
    plain, ours, _ = (line.costs for line in shown.lines)
    assert [cell.text for cell in ours] == ["1", "0", "1,200 + 340", "1.5", "0.0123"]
    assert shown.notes[ours[0].note - 1] == "failed: timeout: 1"
    assert plain[-1].text == "0.00", "nothing was asked, so nothing is owed"
    asked = toy_rows()[1].model_copy(update={"usd": None})
    dear = table(benches([asked.model_copy(update={"baseline": None})])[0], ())
    assert dear.lines[0].costs[-1].text == "–"
    assert "no price is known for the engine" in dear.notes


@pytest.mark.parametrize(
    ("control", "why"),
    [(True, "a control"), (False, "stored answers: what they cost is not known")],
)
def test_what_stored_answers_and_controls_cost_is_not_known(control: bool, why: str) -> None:
    update = {"control": control, "seconds": 0.0, "abstained": None if control else 1}
    shown = table(benches([toy_rows()[0].model_copy(update=update)])[0], ())
    assert [cell.text for cell in shown.lines[0].costs[2:]] == ["–"] * 3
    assert shown.notes == (why,) or list(shown.notes) == [why]


@pytest.mark.parametrize(
    ("value", "p_holm", "lower", "mark"),
    [
        (0.1, 0.049, False, "▲"), (-0.1, 0.049, False, "▼"), (0.1, 0.05, False, ""),
        (0.1, 0.01, True, "▼"), (-0.1, 0.01, True, "▲"), (0.1, None, False, ""),
    ],
)  # fmt: skip
def test_marks(value: float, p_holm: float | None, lower: bool, mark: str) -> None:
    assert mark_of(BaselineDifference(value=value, p=0.001, p_holm=p_holm), lower) == mark
    assert mark_of(None, lower) == mark_of(BaselineDifference(value=None, reason="x"), lower) == ""


def test_main_metrics_are_few_valued_and_can_be_chosen() -> None:
    names = ["nDCG@10", "recall@10", "MRR@10", "coverage@10", "miss@10", "picot_match", "P@10"]
    figures = {name: Figure(value=0.5) for name in [*reversed(names), "faithfulness"]}
    figures["MRR@10"] = Figure(value=None, reason="none")
    row = toy_rows()[0].model_copy(update={"metrics": figures})
    (bench,) = benches([row])
    assert [column.name for column in bench.main] == [
        "nDCG@10", "recall@10", "coverage@10", "miss@10", "picot_match", "faithfulness",
    ]  # fmt: skip
    assert len(bench.main) <= MAX_MAIN
    assert {column.name for column in bench.others} == {"MRR@10", "P@10"}
    (chosen,) = benches([row], ["P@10"])
    assert [column.name for column in chosen.main] == ["P@10"]
    other = toy_rows()[0].model_copy(update={"metrics": {"P@10": figures["P@10"]}, "name": "x"})
    both = table(benches([row, other], ["nDCG@10"])[0], benches([row, other], ["nDCG@10"])[0].main)
    cell = both.lines[1].cells[0]
    assert both.notes[cell.note - 1] == "not measured for this system"
    with pytest.raises(ValueError, match="no row has 'F1'; there are MRR@10"):
        benches([row], ["F1"])


def test_benchmarks_stand_apart_and_say_how_they_are_to_be_read() -> None:
    update: dict[str, Any] = {"bench": "other", "name": "alone", "baseline": None}
    rows = [*toy_rows(), toy_rows()[0].model_copy(update=update)]
    toy, other = benches(rows)
    assert (toy.name, len(toy.rows), other.name, len(other.rows)) == ("toy", 3, "other", 1)
    assert "▲ better, ▼ worse than plain" in explained(toy) and "Holm" in explained(toy)
    assert "no baseline, so no test" in explained(other)


def test_rows_without_any_metric_have_a_table_too() -> None:
    (bench,) = benches(toy_rows()[2:])
    assert bench.main == () and table(bench, bench.main).lines[0].row.state == "failed"


def test_the_length_of_answers_is_the_last_column_of_the_first_table() -> None:
    names = ["answer_words", *(f"nDCG@{n}" for n in range(9)), "nDCG@10", "recall@10", "MRR@10"]
    figures = {name: Figure(value=0.5) for name in names}
    (bench,) = benches([toy_rows()[0].model_copy(update={"metrics": figures})])
    assert [c.name for c in bench.main] == ["nDCG@10", "recall@10", "MRR@10", "answer_words"]
