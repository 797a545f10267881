from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

import pytest

from srrag.lab.review.figures import (
    DIMENSIONS,
    KEYS,
    Board,
    Rating,
    by_question,
    differences,
    figures,
)
from srrag.lab.review.summary import plot_review

SETTINGS = {"resamples": 200, "seed": 0}


def board(table: dict[str, dict[str, list[int | None]]]) -> Board:
    """A board from {rater: {item: values of the first dimensions}}."""
    blank = dict.fromkeys(KEYS)
    ratings = [
        Rating(rater, item, blank | dict(zip(KEYS, values, strict=False)), "", "")
        for rater, given in table.items()
        for item, values in given.items()
    ]
    items = sorted({each.item for each in ratings})
    return Board(ratings, {item: {"query_id": item[:3], "system": "s"} for item in items})


def test_mean_and_sds_by_hand() -> None:
    """SDs are the sample's, as the paper's: 1.73 and 1.34 are those of five whole ratings."""
    found = board({r: {"Q01": [a], "Q02": [b]} for r, a, b in
                   (("a", 1, 5), ("b", 5, 5), ("c", 5, 5), ("d", 5, 5), ("e", 4, 2))})  # fmt: skip
    figure = figures(found, **SETTINGS)["accuracy"]
    every = [1, 5, 5, 5, 4, 5, 5, 5, 5, 2]
    assert figure["value"] == pytest.approx(mean(every), abs=1e-4)
    assert figure["sd"] == pytest.approx(stdev(every), abs=1e-4)
    assert found.spreads("accuracy").round(2).tolist() == [1.73, 1.34]
    assert figure["sd_between_raters"] == pytest.approx((1.7321 + 1.3416) / 2, abs=1e-4)
    assert (figure["items"], figure["missing"]) == (10, 0)
    assert figure["n"] == 2, "the bootstrap draws questions"
    assert figure["counts"] == {"1": 1, "2": 1, "4": 1, "5": 7}
    assert figure["low"] <= figure["value"] <= figure["high"]
    assert by_question(found)[0]["accuracy"] == {"mean": 4.0, "sd": 1.7321}


def test_what_is_missing_is_counted_and_changes_nothing_else() -> None:
    found = board({"a": {"Q01": [4], "Q02": [None]}, "b": {"Q01": [2], "Q02": [5]}})
    figure = figures(found, **SETTINGS)["accuracy"]
    assert (figure["items"], figure["missing"]) == (3, 1)
    assert figure["value"] == pytest.approx(11 / 3, abs=1e-4)
    assert figure["sd_between_raters"] == pytest.approx(2**0.5, abs=1e-4)
    nobody = figures(found, **SETTINGS)["safety"]
    assert (nobody["value"], nobody["reason"], nobody["missing"]) == (None, "nobody rated it", 4)


def test_alpha_is_one_for_equal_raters_and_none_without_two() -> None:
    equal = board({rater: {"Q01": [4], "Q02": [5]} for rater in "ab"})
    assert figures(equal, **SETTINGS)["accuracy"]["alpha"]["value"] == 1.0
    alone = figures(board({"a": {"Q01": [4], "Q02": [5]}}), **SETTINGS)["accuracy"]
    assert (alone["alpha"]["value"], alone["sd_between_raters"]) == (None, None)
    assert "no item was rated twice" in alone["alpha"]["reason"]
    same = figures(board({rater: {"Q01": [5]} for rater in "ab"}), **SETTINGS)["accuracy"]
    assert "all ratings are equal" in same["alpha"]["reason"]


def test_systems_are_compared_question_by_question() -> None:
    ours = board({r: {"Q01-A": [5], "Q02-A": [4], "Q03-A": [3]} for r in "ab"})
    theirs = board({r: {"Q01-B": [3], "Q02-B": [3], "Q03-B": [None]} for r in "ab"})
    found = differences(ours, theirs, **SETTINGS)
    assert found["accuracy"]["value"] == 1.5
    assert (found["accuracy"]["n"], found["accuracy"]["left_out"]) == (2, 1)
    assert 0 < found["accuracy"]["p"] <= found["accuracy"]["p_holm"] <= 1
    assert found["safety"]["value"] is None


def test_the_plot_is_drawn_for_one_and_two_systems(tmp_path: Path) -> None:
    one = board({"a": {"Q01": [5], "Q02": [4]}, "b": {"Q01": [5], "Q02": [1]}})
    for name, boards in {"one": {"s": one}, "two": {"s": one, "t": one}}.items():
        plot_review(tmp_path / name, boards)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_paper_has_five_scales_of_five_and_every_point_has_an_anchor() -> None:
    assert len(DIMENSIONS) == 5
    for each in DIMENSIONS:
        assert list(each.levels) == [1, 2, 3, 4, 5]
        assert all(each.levels.values())
        assert len(set(each.levels.values())) == len(each.levels)
