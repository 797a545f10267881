from hypothesis import given
from hypothesis import strategies as st

from srrag.extract.numbered import ground


def test_exact_quote() -> None:
    assert ground("knee pain", "Mild knee pain.") == (5, 14)


def test_a_whole_word_is_preferred_to_a_part_of_one() -> None:
    text = "Cardiac arrest, then rest."
    assert ground("rest", text) == (21, 25)
    assert ground("arr", text) == (8, 11)


def test_a_word_at_the_edge_of_a_text_is_whole() -> None:
    assert ground("rest", "resting, then rest") == (14, 18)
    assert ground("rest", "rest, then rest") == (0, 4)
    assert ground("rest", "arest rest") == (6, 10)
    assert ground("rest", "an arrest; resting; a rest") == (22, 26)


def test_blanks_and_case_are_forgiven_and_offsets_are_real() -> None:
    text = "Primary  Outcome:\n pain at rest"
    span = ground("primary outcome: Pain", text)
    assert span is not None
    assert text[slice(*span)] == "Primary  Outcome:\n pain"


def test_what_is_not_there_is_not_found() -> None:
    assert ground("placebo", "no control group") is None
    assert ground("", "text") is None
    assert ground(" \n", "text") is None
    assert ground("control  . group", "no control group") is None


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_any_piece_with_words_is_found_in_its_text(text: str, one: int, other: int) -> None:
    piece = text[min(one, other) : max(one, other)]
    span = ground(piece, text)
    assert (span is not None) == bool(piece.split())
    if span:
        assert text[slice(*span)] == piece
