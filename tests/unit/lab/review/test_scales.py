from __future__ import annotations

from srrag.lab.review.figures import DIMENSIONS


def test_the_paper_has_five_scales_of_five_and_every_point_has_an_anchor() -> None:
    assert len(DIMENSIONS) == 5
    for each in DIMENSIONS:
        assert list(each.levels) == [1, 2, 3, 4, 5]
        assert all(each.levels.values())
        assert len(set(each.levels.values())) == len(each.levels)
