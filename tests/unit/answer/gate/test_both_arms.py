"""Comparisons of groups that all got what a question asks about."""

import pytest

from srrag.answer.gate.both_arms import GivenToAll, given_to_all

EXERCISE = "Does exercise reduce knee pain?"


@pytest.mark.parametrize(
    "text",
    [
        "NMES combined with exercise versus exercise for knee osteoarthritis",
        "NMES (10 Hz) plus exercise or exercise alone",
        "Patients were randomized to receive exercise alone or exercise plus NMES.",
        "Exercise alone or combined with NMES in knee osteoarthritis",
        "Exercise with or without NMES after knee surgery",
        "The addition of NMES to exercise in knee osteoarthritis",
    ],
)
def test_what_all_groups_got_is_not_compared(text: str) -> None:
    found = given_to_all(EXERCISE, text)
    assert found is not None
    assert found.asked == "exercise"
    assert found.found in text
    assert "NMES" in found.found


@pytest.mark.parametrize(
    "text",
    [
        "Exercise versus rest for knee osteoarthritis",
        "Exercise plus diet versus rest for knee osteoarthritis",
        "Exercise and education reduced pain more than education",
        "Pain was lower with exercise than with NMES and did not differ between NMES and rest.",
        "Yoga with or without NMES",
        "",
    ],
)
def test_what_one_group_got_is(text: str) -> None:
    assert given_to_all(EXERCISE, text) is None


@pytest.mark.parametrize(
    "question",
    [
        "Does NMES reduce knee pain?",
        "Does NMES beat exercise in knee pain?",
        "Does exercise combined with NMES reduce knee pain?",
        "Does vitamin D reduce knee pain?",
    ],
)
def test_a_question_on_what_was_added_is_answered(question: str) -> None:
    assert given_to_all(question, "NMES plus exercise versus exercise alone") is None


def test_the_words_of_an_outcome_are_no_treatment() -> None:
    text = "Massage plus exercise versus exercise alone"
    assert given_to_all("Does swimming improve exercise capacity?", text) is None


def test_the_comparison_stands_as_in_the_text_and_the_treatment_as_in_the_question() -> None:
    text = "We gave ten\n  sessions of laser therapy plus wrist splints versus wrist splints."
    asked = "Do wrist splints help carpal tunnel syndrome?"
    said = "of laser therapy plus wrist splints versus wrist splints"
    found = given_to_all(asked, text)
    assert isinstance(found, GivenToAll)
    assert found.asked == "wrist splints"
    assert found.found.endswith(said)
