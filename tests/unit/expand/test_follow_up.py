"""Follow-ups as questions of their own."""

from __future__ import annotations

import pytest

from srrag.expand.follow_up import StandaloneQuestion, standalone_question


def standalone(messages: list[str]) -> StandaloneQuestion:
    return standalone_question(messages, 4000)


BRACE = "Does an ankle brace prevent sprains in basketball players?"
OTITIS = "What is the first-line treatment for acute otitis media?"
STROKE = "Does aspirin prevent stroke in adults with atrial fibrillation?"
WHEY = "What is the effect of whey protein compared with soy protein on strength?"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([BRACE, "How many of the players actually wore it?"],
         f"{BRACE} How many of the players actually wore it?"),
        ([BRACE, "And in children?"], "Does an ankle brace prevent sprains in children?"),
        ([STROKE, "What about warfarin?"],
         "Does warfarin prevent stroke in adults with atrial fibrillation?"),
        *[([STROKE, message], f"{STROKE} {message}") for message in (
            "What about side effects?", "What about bleeding?", "How about hypoglycaemia?",
            "What about mortality?", "What about quality of life?", "What about kidney function?",
            "what about the elderly?", "What about high doses?", "What about bleeding on aspirin?",
            "And without aspirin?", "what about no aspirin?", "And stopping aspirin?",
            "What about aspirin withdrawal?", "What about not in adults?", "What about taping?",
        )],
        ([BRACE, "Thank you, and in women?"], "Does an ankle brace prevent sprains in women?"),
        ([BRACE, "compared with tape?"],
         "Does an ankle brace prevent sprains in basketball players compared with tape?"),
        ([BRACE, "thanks", "Is it safe?"], f"{BRACE} Is it safe?"),
        ([BRACE, "At what interval?"], f"{BRACE} At what interval?"),
        ([OTITIS, "and in children?"], f"{OTITIS} and in children?"),
        ([WHEY, "in women?", "and men?"],
         "What is the effect of whey protein compared with soy protein on strength in men?"),
        ([WHEY, "and muscle mass?"],
         f"{WHEY} and muscle mass?"),
        (["Does supplementation improve fatigue in men?", "And in women?"],
         "Does supplementation improve fatigue in women?"),
        (["Is early treatment better in men?", "And in women?"],
         "Is early treatment better in women?"),
        ([STROKE, "And in pregnant women?"],
         "Does aspirin prevent stroke in pregnant women with atrial fibrillation?"),
        (["Does amoxicillin shorten otitis media in children without perforation?",
          "And in adults?"],
         "Does amoxicillin shorten otitis media in adults without perforation?"),
        ([STROKE, "And in people with heart failure?"],
         "Does aspirin prevent stroke in people with heart failure?"),
        ([STROKE, "And in people without?"], f"{STROKE} And in people without?"),
        ([STROKE, "And in patients on warfarin?"], f"{STROKE} And in patients on warfarin?"),
        ([STROKE, "And in the elderly?"], f"{STROKE} And in the elderly?"),
    ],
)  # fmt: skip
def test_a_follow_up_is_rewritten_from_the_question_before(messages: list[str], text: str) -> None:
    found = standalone(messages)
    assert (found.kind, found.text, found.asked) == ("follow_up", text, messages[-1])


@pytest.mark.parametrize(
    "text",
    [
        "Does bed rest help acute low back pain in adults?",
        "When can athletes return to sport after anterior cruciate ligament reconstruction?",
        WHEY,
        "?!",
        "In rheumatoid arthritis, does the gain in the pool last once people have left it?",
        "My patient is 19 weeks pregnant and gains too little. Can she make it up in the last ten?",
        "A fit man wants to use pre-workout powders. Do they push up his pulse?",
    ],
)
def test_a_question_of_its_own_stays_as_it_is(text: str) -> None:
    assert standalone([BRACE, text]).text == text
    assert standalone([text]).kind == "question"


@pytest.mark.parametrize("text", ["Thanks!", "Thank you so much.", "ok", "Great, thanks a lot!"])
def test_thanks_are_thanks(text: str) -> None:
    assert standalone([BRACE, text]).kind == "thanks"


def test_words_of_thanks_in_a_question_are_none() -> None:
    found = standalone(["Great toe pain after running?"])
    assert (found.kind, found.text) == ("question", "Great toe pain after running?")


def test_only_the_last_turns_are_read() -> None:
    history = [BRACE, *["What about tape?"] * 5000, "And in children?"]
    assert standalone(history).kind == "follow_up"
    assert standalone([]).text == ""


def test_a_follow_up_of_a_question_as_long_as_may_be_stays_as_it_is() -> None:
    found = standalone(["knee " * 799, "Is it safe?"])
    assert (found.kind, found.text) == ("question", "Is it safe?")
