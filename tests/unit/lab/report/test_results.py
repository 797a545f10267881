"""A folder of results: what is written is read again, and what is foreign or cut is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srrag.core.figures import Figure
from srrag.lab.report.results import gold_table, read_results, scored, stated, write_results
from srrag.lab.report.row import Row
from srrag.storage.atomic_write import read_json
from tests.unit.lab.report.toy_results import (
    toy_answers,
    toy_gold,
    toy_judgements,
    toy_rows,
    toy_scores,
    write_toy,
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    results = read_results(write_toy(tmp_path))
    assert list(results.rows) == toy_rows()
    assert results.gold.equals(toy_gold())
    answers, judgements = results.answers("ours"), results.judgements("ours")
    assert answers is not None and answers.equals(toy_answers())
    assert judgements is not None and judgements.equals(toy_judgements())
    assert results.answers("plain") is None and results.judgements("lost/model") is None


def test_questions_know_their_strata_and_why_they_have_no_value(tmp_path: Path) -> None:
    rows = read_results(write_toy(tmp_path)).questions.to_pylist()
    assert [row["condition"] for row in rows[:3]] == ["ACL", "stroke", "ACL"]
    assert rows[0]["value"] == 1.0 and rows[0]["weight"] == 1.0 and rows[0]["certainty"]
    assert rows[2]["value"] is None and rows[2]["reason"] == "no statement"
    assert rows[2]["grade"] is None


def test_pooled_values_add_up_to_the_metric() -> None:
    table = scored("r", "m", ["a", "b"], np.array([1.0, 3.0]), np.array([2.0, 3.0]))
    assert table["value"].to_pylist() == [0.5, 1.0]
    assert table["weight"].to_pylist() == [2.0, 3.0]


def test_names_become_files_that_differ_and_stay_in_the_folder(tmp_path: Path) -> None:
    names = ["a/b", "a-b", "../x", ".."]
    rows = [toy_rows()[0].model_copy(update={"name": name}) for name in names]
    from srrag.lab.report.results import write_answers

    for name in names:
        write_answers(tmp_path / "r", name, toy_answers())
    write_results(tmp_path / "r", rows, [], toy_gold())
    files = sorted(path.name for path in (tmp_path / "r" / "answers").iterdir())
    assert len(files) == 4 and "a-b.parquet" in files
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert all(read_results(tmp_path / "r").answers(name) is not None for name in names)


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        stated = read_json(folder / "rows.json")  # without the hash of its text
        change(stated)
        (folder / "rows.json").write_text(json.dumps(stated))

    return apply


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "rows.json").unlink(), "holds no rows.json: not results, or not finished"),
        (lambda f: (f / "rows.json").write_text("{"), "rows.json: not valid JSON"),
        (lambda f: (f / "rows.json").write_text("[]"), "rows.json: layout None"),
        (edit(lambda s: s.update(layout=2)), "layout 2; this version reads 1"),
        (edit(lambda s: s.update(rows=[])), "rows.json: rows: "),
        (edit(lambda s: s["rows"][1].pop("command")), r"rows\.1\.command: Field required"),
        (edit(lambda s: s["rows"][0].update(coverage=1)), r"rows\.0\.coverage: Extra inputs"),
        (edit(lambda s: s["rows"][0]["metrics"]["coverage"].update(value=float("nan"))),
         r"rows\.0\.metrics\.coverage\.value: .*finite"),
        (edit(lambda s: s["rows"][0]["metrics"]["nuggets"].update(reason="")), "no reason why"),
        (edit(lambda s: s["rows"][1].update(name="plain")), "two rows named 'plain'"),
        (edit(lambda s: s["rows"][1].update(baseline="none")), "baseline 'none' is no row"),
        (edit(lambda s: s["files"].update({"../gold": ""})), "lies outside the folder"),
        (lambda f: (f / "gold.parquet").unlink(), r"gold\.parquet is missing"),
        (lambda f: (f / "answers" / "ours.parquet").write_bytes(b"PAR1"), "sha256 differs"),
        (edit(lambda s: s["files"].pop("questions.parquet")), "sha256 differs"),
    ],
)  # fmt: skip
def test_a_foreign_or_cut_folder_is_one_line(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    write_toy(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        read_results(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_row_that_failed_says_why() -> None:
    with pytest.raises(ValueError, match="no reason why"):
        Row(name="x", bench="b", command="c", state="failed")


def test_an_interrupted_writing_leaves_no_finished_folder(tmp_path: Path) -> None:
    write_toy(tmp_path)
    with pytest.raises(ValueError, match="no row"):
        write_results(tmp_path, toy_rows()[1:], toy_scores(), toy_gold())
    assert read_results(tmp_path).rows, "nothing was touched: the fault was found before"
    with pytest.raises(ValueError, match="column"):
        write_results(tmp_path, toy_rows(), toy_scores(), toy_gold().drop_columns(["text"]))


def test_the_toy() -> None:
    assert stated(toy_rows()) == [
        "lost/model failed as a whole: engine 'gone' is not up",
        "ours: not judged, and counted as worst: items of coverage 1",
        "ours: 1 of 3 questions without an answer (failed: timeout 1)",
    ]


def test_a_judge_that_broke_down_is_named_once_with_its_systems() -> None:
    plain, ours, _ = toy_rows()
    void = Figure(value=None, reason="the judge failed on all 9 items", failed=9, items=9)
    update = {"broken_judges": ("claims", "nuggets"), "metrics": {"faithfulness": void}}
    both = [row.model_copy(update=update) for row in (plain, ours)]
    told = "NO RESULT of the judge {}: it failed wherever it was asked, for {}"
    assert stated(both)[:2] == [told.format(n, "all systems") for n in ("claims", "nuggets")]
    assert stated([plain, both[1]])[0] == told.format("claims", "ours")
    assert not any("not judged" in line for line in stated(both))


def test_failures_of_a_ranking_are_its_questions_alone() -> None:
    figures = {f"recall@{n}": Figure(value=0.5, failed=2, items=9) for n in range(5)}
    row = toy_rows()[0].model_copy(update={"metrics": figures, "judge": "", "missing": {}})
    assert stated([row]) == []
    judged = row.model_copy(update={"judge": "rules"})
    assert stated([judged]) == [
        "plain: not judged, and counted as worst: items of recall@0 2 of 9, recall@1 2 of 9, "
        "recall@2 2 of 9 and of 2 more metrics"
    ]


def test_gold_of_any_shape_makes_a_table() -> None:
    odd = {
        "query_id": "q", "text": "Q?", "ideal_answer": "", "condition": ["asthma", "copd"],
        "exact_answer": [["varenicline", "Chantix"], ["bupropion"]], "grade": 1, "certainty": 2,
        "subset": None, "relevant": [123], "gold": [{"doc": 5, "grade": "B"}, {"doc": "6"}],
    }  # fmt: skip
    (row,) = gold_table("toy", [odd]).to_pylist()
    assert row["reference"] == "varenicline; Chantix; bupropion"
    assert (row["condition"], row["grade"], row["certainty"]) == (None, "B", None)
    assert row["relevant"] == ["5", "6", "123"]
