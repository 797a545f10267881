from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from srrag.systems.rasrag.chapter_independence import (
    independence,
    pair_cosines,
    plot_independence,
    readable,
)


def test_a_row_for_each_temperature_and_four_plots(tmp_path: Path) -> None:
    draw = np.random.default_rng(0).normal(size=(4, 1, 16)) + 0.3 * np.random.default_rng(1).normal(
        size=(4, 5, 16)
    )
    vectors = draw.reshape(20, 16) / np.linalg.norm(draw.reshape(20, 16), axis=1, keepdims=True)
    chapters = np.repeat(np.arange(4), 5)
    found = independence(vectors, chapters)
    metrics = found["metrics"]
    within, across = pair_cosines(vectors, chapters)
    for name, cosines in (("within_cosine", within), ("across_cosine", across)):
        assert metrics[name]["value"] == pytest.approx(cosines.mean(), abs=1e-4)
        assert metrics[name]["low"] <= metrics[name]["value"] <= metrics[name]["high"]
    assert metrics["within_cosine"]["low"] > metrics["across_cosine"]["high"]
    assert {each["n"] for each in metrics.values()} == {4}
    assert found["random_own_mass"] == 0.25
    own = [row["own_mass_median"] for row in found["temperatures"]]
    assert own == sorted(own, reverse=True)
    assert readable(found).count("\n") == 11
    names = plot_independence(tmp_path, vectors, chapters, list("abcd"))
    assert len(names) == 4
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
