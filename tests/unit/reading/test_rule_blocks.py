from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.reading.mentions import find_breaks, find_mentions, in_blocks
from srrag.reading.values import find_values

TEXT = """## Scope
Adults with low back pain were given supervised exercise.

## Manual therapy
- Gentle active movement
- Neck strengthening
| Collar | Rest |
"""


def pieces(text: str, run: str) -> list[str]:
    start = text.index(run)
    return [text[a:b] for a, b in in_blocks(find_breaks(text), start, start + len(run))]


@pytest.mark.parametrize(
    ("run", "found"),
    [
        ("Scope\nAdults with low back pain", ["Adults with low back pain"]),
        ("Manual therapy", ["Manual therapy"]),
        ("Manual therapy\n- Gentle active", ["Gentle active"]),
        ("Gentle active movement\n- Neck", ["Gentle active movement", "Neck"]),
        ("Collar | Rest", ["Collar", "Rest"]),
        ("supervised exercise", ["supervised exercise"]),
    ],
)
def test_a_run_is_cut_where_blocks_part(run: str, found: list[str]) -> None:
    assert pieces(TEXT, run) == found


@given(text=st.text("# \n-|ab1.", max_size=40), data=st.data())
def test_pieces_lie_in_their_run_in_order(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = in_blocks(find_breaks(text), start, end)
    assert all(start <= a < b <= end for a, b in found) or found == [(start, end)]
    assert all(one[1] <= other[0] for one, other in pairwise(found))


def test_no_mention_holds_the_heading_before_it() -> None:
    (found,) = find_mentions([TEXT], ["Scope"], [True])
    assert found and not [m for m in found if "\n" in TEXT[m.start : m.end]]


def test_ages_count_nobody() -> None:
    text = (
        "healthy adults aged 18 to 64 years and adults with complaints; 64 older adults took part"
    )
    values = [value for value in find_values(text) if value.attribute == "sample_size"]
    assert [(value.value, text[value.start : value.end]) for value in values] == [
        ("64", "64 older adults")
    ]
