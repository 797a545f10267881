from __future__ import annotations

import numpy as np

from srrag.lab.measure.groups import by_group
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Scores


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
