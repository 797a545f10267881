import json

import pytest

from srrag.completion import read
from srrag.expand.hyde import NUM_PASSAGES, TEMPERATURE, HydePassage, invented_numbers, render


@pytest.mark.parametrize(("count", "fits"), [(4, False), (5, True), (8, True), (9, False)])
def test_a_passage_has_5_to_8_sentences(count: int, fits: bool) -> None:
    answer = read(json.dumps({"sentences": ["Pain fell."] * count}), HydePassage)
    assert (answer.fault is None) == fits
    if fits:
        assert answer.value.text() == " ".join(["Pain fell."] * count)


def test_three_passages_at_the_temperature_of_table_s3() -> None:
    assert (NUM_PASSAGES, TEMPERATURE) == (3, 0.3)


def test_missing_anchors_are_shown_as_missing() -> None:
    _, user = render("Do splints help?", {"I": ["splints"], "x": ["never shown"]})
    assert user.endswith('Anchors: {"P": [], "I": ["splints"], "C": [], "O": [], "T": []}')


def test_numbers_that_the_question_lacks_are_found() -> None:
    question = "Do 12 weeks of splints help at 1.5 years?"
    assert invented_numbers("After 12 weeks and 1.5 years.", question) == []
    assert invented_numbers("In 48 adults, 1 of 12 and 48.", question) == ["48", "1"]
