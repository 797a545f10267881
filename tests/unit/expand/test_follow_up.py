"""Follow-ups as questions of their own."""

from __future__ import annotations

import pytest

from srrag.expand.follow_up import standalone_question

BRACE = "Does an ankle brace prevent sprains in basketball players?"
WHEY = "What is the effect of whey protein compared with soy protein on strength?"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([BRACE, "How many of the players actually wore it?"],
         "How many of the players actually wore ankle brace (in basketball players)?"),
        ([BRACE, "And in children?"], "Does an ankle brace prevent sprains in children?"),
        ([BRACE, "What about taping?"], "Does taping prevent sprains in basketball players?"),
        ([BRACE, "Thank you, and in women?"], "Does an ankle brace prevent sprains in women?"),
        ([BRACE, "compared with tape?"],
         "Does an ankle brace prevent sprains in basketball players compared with tape?"),
        ([BRACE, "thanks", "Is it safe?"], "Is ankle brace safe (in basketball players)?"),
        ([WHEY, "in women?", "and men?"],
         "What is the effect of whey protein compared with soy protein on strength in men?"),
        ([WHEY, "and muscle mass?"],
         f"{WHEY[:-1]} and muscle mass?"),
    ],
)  # fmt: skip
def test_a_follow_up_is_rewritten_from_the_question_before(messages: list[str], text: str) -> None:
    found = standalone_question(messages)
    assert (found.kind, found.text, found.asked) == ("follow_up", text, messages[-1])


@pytest.mark.parametrize(
    "text",
    [
        "Does bed rest help acute low back pain in adults?",
        "When can athletes return to sport after anterior cruciate ligament reconstruction?",
        WHEY,
        "?!",
    ],
)
def test_a_question_of_its_own_stays_as_it_is(text: str) -> None:
    assert standalone_question([BRACE, text]).text == text
    assert standalone_question([text]).kind == "question"


@pytest.mark.parametrize("text", ["Thanks!", "Thank you so much.", "ok", "Great, thanks a lot!"])
def test_thanks_are_thanks(text: str) -> None:
    assert standalone_question([BRACE, text]).kind == "thanks"


def test_words_of_thanks_in_a_question_are_none() -> None:
    found = standalone_question(["Great toe pain after running?"])
    assert (found.kind, found.text) == ("question", "Great toe pain after running?")


def test_only_the_last_turns_are_read() -> None:
    history = [BRACE, *["What about tape?"] * 5000, "And in children?"]
    assert standalone_question(history).kind == "follow_up"
    assert standalone_question([]).text == ""
