from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.export.page import MAX_CHARS, Passages, quote
from tests.unit.export.graphs import TEXT, Written, key


@pytest.mark.parametrize(
    ("text", "mention", "sentence"),
    [
        ("One. Two is here. Three.", "is", "Two is here."),
        ("## Results\nIt fell by 2.5 vs. rest. More.", "rest", "It fell by 2.5 vs. rest."),
        ("As Smith et al. Showed it fell. So.", "fell", "As Smith et al. Showed it fell."),
        ("Intro:\n- first item\n- second **bold** item\n\nEnd", "second", "second bold item"),
        ("a line\nbroken in two. Next", "two", "a line broken in two."),
        ("only words", "words", "only words"),
    ],
)  # fmt: skip
def test_the_sentence_around_a_mention(text: str, mention: str, sentence: str) -> None:
    start = text.index(mention)
    found = quote(text, start, start + len(mention))
    assert "".join(found).strip() == sentence
    assert found.text == mention


@given(st.text(alphabet="ab .?!\n#-1Z*", max_size=900), st.integers(0, 900), st.integers(0, 900))
@settings(deadline=None)
def test_a_quote_is_bounded_and_keeps_the_mention(text: str, one: int, other: int) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    found = quote(text, start, end)
    assert len("".join(found)) <= max(MAX_CHARS, end - start + 80) + 4
    assert "\n" not in "".join(found)


def test_a_span_of_the_document_is_found_in_its_window(written: Written) -> None:
    assert written.graph.units is not None
    passages = Passages(written.graph.units, [key("d1")])
    start = TEXT.index("exercise")
    found = passages.find(key("d1"), start, start + 8)
    assert found is not None
    quoted, section = found
    assert quoted == ("The ", "exercise", " of d1 was done daily by 40 adults.")
    assert section == "Results"
    assert passages.find(key("d2"), start, start + 8) is None
    assert passages.find(key("d1"), 10_000, 10_010) is None
