from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from srrag.core.spec import question_id
from srrag.core.standing import Standings
from srrag.core.step import Place, Step
from srrag.core.units import Units
from srrag.lab.benchmark.review import ReviewDecision
from srrag.lab.benchmark.sample import REFERENCED
from srrag.lab.benchmark.split_nuggets import SplitNuggets
from srrag.lab.experiment.make_benchmark import (
    Dropped,
    marks_of,
    unfit_questions,
    with_nuggets,
)
from srrag.storage.store import Store
from tests.golden.bench_cases import row


def test_a_decision_on_a_question_of_an_unfit_paper_is_told_why_it_is_gone(
    sample_root: Path,
) -> None:
    units = Units(Store(sample_root).artifacts("default")["units"])
    unit_id, doc_id = (units.units[name][0].as_py() for name in ("unit_id", "doc_id"))
    name, unfit = question_id(unit_id), {doc_id: "retracted"}
    decided = [ReviewDecision(name, "accept", "review.xlsx:2"), ReviewDecision("q", "accept", "")]
    assert unfit_questions(units, unfit, decided) == {name: "its paper is retracted"}
    assert unfit_questions(units, unfit, []) == unfit_questions(units, {}, decided) == {}


def test_what_is_left_is_marked_in_words() -> None:
    (standings := Standings(None)).known = True
    said = {"a": "corrected", "b": "retracted"}
    columns = {"doc_id": [*said], "source_id": [*said], "standing": [*said.values()]}
    standings.table = pa.table({**columns, "link": ["pmid:7", ""]})
    assert marks_of(standings) == {"a": "corrected after publication (PMID 7)"}
    assert marks_of(Standings(None)) == {}


class Here:
    """Stages in this process, which note what they are given."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self.asked: list[str] = []

    def run(self, source: str, table: pa.Table, steps: Mapping[str, Step]) -> dict[str, pa.Table]:
        self.asked += table["query_id"].to_pylist()
        return {name: step.open(Place())(table) for name, step in steps.items()}

    def rank(self, *_: object) -> list[pa.Table]:
        raise AssertionError


def test_no_model_is_asked_for_nuggets_that_a_reviewer_wrote() -> None:
    """So no number of the model's can reject a question that a reviewer set right."""
    answers = {"c": "It helps.", "a": "It helps.", "b": "Yes."}
    rows = [
        row(REFERENCED, query_id=name, exact=[{"text": text, "unit_ids": ["u"]}]).to_pylist()[0]
        for name, text in answers.items()
    ]
    own = {"revised_exact_answer": "Yes.", "revised_nuggets": "It helps adults"}
    decisions = [
        ReviewDecision("b", "revise", "f:1", revised=own), ReviewDecision("c", "accept", "f:2")
    ]  # fmt: skip
    stages, dropped = Here(), Dropped()
    found = with_nuggets(stages, SplitNuggets(), rows, decisions, dropped)
    assert stages.asked == ["c", "a"] and not dropped.rows
    assert [each["query_id"] for each in found] == ["a", "b", "c"]
    assert found[1]["nuggets"] == [{"text": "It helps adults", "importance": "vital"}]
    assert found[2]["nuggets"] == [{"text": "It helps.", "importance": "vital"}]
