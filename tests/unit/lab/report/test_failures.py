"""What failed is said in lines, the gravest first."""

from __future__ import annotations

from srrag.core.figures import Figure
from srrag.lab.report.results import stated
from tests.unit.lab.report.toy_results import toy_rows


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
