from __future__ import annotations

import pytest

from srrag.lab.review.forms import FORMS, LIKERT, RASRAG, form_of


def test_every_point_of_every_scale_has_an_anchor() -> None:
    for form in FORMS.values():
        for each in form.dimensions:
            values = sorted(each.levels)
            assert values == list(range(values[0], values[-1] + 1))
            assert all(each.levels.values())
            assert len(set(each.levels.values())) == len(values)


def test_the_paper_has_five_scales_of_five() -> None:
    assert len(LIKERT.dimensions) == 5
    assert all(sorted(each.levels) == [1, 2, 3, 4, 5] for each in LIKERT.dimensions)


def test_the_points_of_rasrag_are_60_20_20() -> None:
    assert [max(each.levels) for each in RASRAG.dimensions] == [6, 2, 2]


@pytest.mark.parametrize(
    ("ratings", "column"),
    [
        ((6, 2, 2), None), ((6, 1, 1), None), ((4, 1, 0), None), ((0, 0, 0), None),
        ((6, 0, 2), "completeness"), ((5, 2, 1), "completeness"), ((3, 1, 2), "usefulness"),
        ((0, 0, 1), "usefulness"), ((7, 1, 1), "correctness"), ((None, 2, 2), None),
        ((6, None, None), None), ((6, None, 3), "usefulness"),
    ],
)  # fmt: skip
def test_correctness_limits_the_other_points(
    ratings: tuple[int | None, ...], column: str | None
) -> None:
    fault = RASRAG.fault(dict(zip(RASRAG.keys, ratings, strict=True)))
    assert (fault and fault[0]) == column


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(ValueError, match="form=stars: there are likert, rasrag"):
        form_of("stars")
