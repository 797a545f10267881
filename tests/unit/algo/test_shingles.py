"""Shares of texts in one another, of short and of sampled long ones."""

import pytest

from srrag.index.standing import share_within, shingles

LONG = [f"word{n}" for n in range(4000)]


@pytest.mark.parametrize("size", [50, 400, 4000])
def test_half_of_a_text_stands_in_another(size: int) -> None:
    whole, half = LONG[:size], [*LONG[: size // 2], *(f"other{n}" for n in range(size // 2))]
    share = share_within(shingles(" ".join(half)), shingles(" ".join(whole)))
    assert share == pytest.approx(0.5, abs=0.08)
    marks = "; ".join(whole).upper()
    assert share_within(shingles(marks), shingles(" ".join(whole))) == 1.0


def test_an_abstract_stands_in_its_long_paper() -> None:
    paper = shingles(" ".join(LONG))
    assert len(paper.hashes) < paper.number / 6
    assert share_within(shingles(" ".join(LONG[100:300])), paper) == 1.0
    assert share_within(shingles("Words of another paper than that one."), paper) == 0.0


def test_a_text_too_short_to_tell_stands_nowhere() -> None:
    assert share_within(shingles("Four words are few"), shingles("Four words are few")) == 0.0
