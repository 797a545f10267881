"""The direction that a sentence tells."""

import pytest

from srrag.answer.direction import direction


@pytest.mark.parametrize(
    ("sentence", "outcome", "told"),
    [
        ("Taping reduced pain (P = 0.01).", "pain", "decreased"),
        ("Strength was higher after taping than after rest.", "strength", "increased"),
        ("Strength was higher after rest than after taping.", "strength", "decreased"),
        ("Pain did not differ significantly between groups.", "pain", "same"),
        ("Pain improved with taping.", "pain", "decreased"),
        ("Function improved with taping.", "function", "increased"),
        ("Taping raised strength: increased strength, but decreased pain.", "pain", "decreased"),
        ("Sixty patients wore a tape.", "pain", ""),
    ],
)
def test_direction(sentence: str, outcome: str, told: str) -> None:
    assert direction(sentence, "taping", "rest", outcome) == told
