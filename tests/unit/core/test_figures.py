"""The shape of a measured figure, and the schema that every job's last line is held to."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from jobs import JOBS
from srrag.core.figures import NEEDED, Figure, measured, printed, schema, unmeasured

FIGURE = measured((0.51239, 0.4, 0.6), 3)


def faults(job: str, **summary: Any) -> list[str]:
    checked = jsonschema.Draft202012Validator(schema(job))
    return [each.message for each in checked.iter_errors({"job": job, **summary})]


def test_a_figure_is_rounded_and_printed() -> None:
    assert FIGURE == {"value": 0.5124, "low": 0.4, "high": 0.6, "n": 3}
    assert printed(FIGURE) == "  0.5124   [0.4000, 0.6000]"
    assert printed(unmeasured("no gold")).split() == ["–", "no", "gold"]
    assert Figure(**FIGURE).stated() == FIGURE
    assert Figure(**unmeasured("no gold")).stated() == unmeasured("no gold")


@pytest.mark.parametrize("job", JOBS)
def test_each_job_has_a_schema(job: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(job))
    assert set(NEEDED) <= set(JOBS)


def test_figures_are_held_to_the_shape_at_any_depth() -> None:
    said = {"nDCG@10": FIGURE, "coverage": unmeasured("no gold"), "sd": {**FIGURE, "sd": 0.1}}
    more = {"difference": {"nDCG@10": {**FIGURE, "p": 0.5}}, "questions": 3, "seconds": 0.5}
    deep = {"fits": [{"sets": {"one": {"metrics": said}}}], "baseline_metrics": said}
    assert faults("evaluate", metrics=said, **more, **deep) == []
    for wrong in (0.5, {"value": 0.5}, {**FIGURE, "low": None}, {**FIGURE, "value": None},
                  {**unmeasured("x"), "reason": ""}, {**FIGURE, "n": 0.5}):  # fmt: skip
        assert faults("evaluate", metrics={"a": wrong}), wrong
        assert faults("evaluate", metrics={}, fits=[{"x": {"metrics": {"a": wrong}}}]), wrong
        assert faults("evaluate", metrics={}, baseline_metrics={"a": wrong}), wrong
    assert faults("evaluate", metrics={}, difference={"a": {**FIGURE, "p": "small"}})


def test_what_a_job_measures_is_there() -> None:
    assert faults("status") == []
    assert faults("evaluate") == ["'metrics' is a required property"]
    assert faults("sweep", rows={"one": {"nDCG@10": 0.5}}) == ["'metrics' is a required property"]
    assert faults("sweep", rows={"one": {"metrics": {"nDCG@10": FIGURE}}}) == []
    assert faults("build", rows={"documents": 3}) == [], "rows of a build are counts"
