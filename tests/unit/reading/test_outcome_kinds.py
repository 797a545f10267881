"""Kinds of outcome: another word for what was asked counts as a word of it."""

from __future__ import annotations

import pytest

from srrag.answer.select.candidates import Passage, candidates
from srrag.answer.select.quotes import ExtractRule
from srrag.reading.lexicon import KINDS, kinds_of, named_terms

PAPER = (
    "A randomised trial of yoga in 120 pregnant women is reported here. Pain was lower with yoga "
    "than without it (P = 0.01). {harm} Yoga was taught twice a week for eight weeks in pregnancy."
)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Is yoga safe?", "no adverse events"),
        ("What are the side effects?", "complications were rare"),
        ("Do fewer patients die?", "mortality was lower"),
        ("What does it cost?", "the cheaper option"),
        ("Does it come with relapse?", "recurrences at a year"),
        ("Does it avoid hospitalisation?", "were admitted"),
    ],
)
def test_words_of_one_kind_are_the_same_term(asked: str, told: str) -> None:
    assert {*named_terms(asked)} & {*named_terms(told)} & {*KINDS}


def test_other_words_keep_their_stems() -> None:
    assert named_terms("pain of the knee") == ["pain", "knee"]
    assert "harm" not in named_terms("the side of the knee, and its effect")
    assert kinds_of(named_terms("deaths and pain")) == {"death"}


@pytest.mark.parametrize("harm", ["No harm was seen.", "Adverse events were as common as before."])
def test_a_question_on_safety_leads_with_what_is_said_of_harm(harm: str) -> None:
    passage = Passage(PAPER.format(harm=harm), "Yoga in pregnancy", "", "C")
    assert ExtractRule()("Is yoga safe in pregnancy?", [passage]).choices[0].text == harm


def test_a_finding_may_be_short_and_a_fragment_may_not() -> None:
    passage = Passage(PAPER.format(harm="No harm was seen. Harm not seen."), "Yoga", "", "C")
    quoted = [each.text for each in candidates([passage])]
    assert "No harm was seen." in quoted and "Harm not seen." not in quoted
