from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.systems.rasrag.text_units import split_spans

TEXTS = st.text(alphabet="ab. \n", max_size=120)


def parts(text: str, size: int) -> list[str]:
    return [text[start:end] for start, end in split_spans(text, size)]


def test_pieces_are_joined_while_they_fit() -> None:
    assert parts("aa\n\nbb\n\ncccc", 6) == ["aa\n\nbb", "cccc"]


def test_a_long_piece_is_cut_at_the_next_separator_and_not_joined_with_its_neighbours() -> None:
    text = "aa\n\nOne two. Three four. Five\n\nbb"
    assert parts(text, 12) == ["aa", "One two.", "Three four.", "Five", "bb"]


def test_a_run_without_a_separator_is_cut_at_the_limit() -> None:
    assert parts("abcdefgh", 3) == ["abc", "def", "gh"]


def test_blank_text_has_no_unit() -> None:
    assert split_spans(" \n\n ", 5) == split_spans("", 5) == []


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="size is 0"):
        split_spans("a", 0)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(1, 40))
def test_every_character_that_is_not_blank_is_in_one_span(text: str, size: int) -> None:
    spans = split_spans(text, size)
    assert all(0 < end - start <= size for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(text[a:b] == text[a:b].strip() for a, b in spans)


def test_a_long_text_takes_linear_time() -> None:
    spans = split_spans("word " * 50_000, 1000)
    assert len(spans) == 250
