from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.llm.completion import Completion, Fault, Prompt, quoted
from srrag.llm.describe import (
    MAX_SUMMARY_CHARS,
    Description,
    Topic,
    by_rules,
    describe,
    render,
    split,
)

SMALL = Topic(("knee", "tape"), ["tape treats knee pain", "tape reports outcome pain"])
LARGE = Topic(("hip",), [f"exercise {n:04d} treats hip pain {'x' * 80}" for n in range(300)])


def test_a_small_topic_takes_one_call() -> None:
    found = describe([SMALL], by_rules, 2000)
    assert found.calls == 1
    assert found.found == [
        Description(name="knee, tape", summary="tape treats knee pain. tape reports outcome pain.")
    ]


_TEXTS = st.text(st.sampled_from('<>/|[]INST"\\\n\x00\u2028 aé'), max_size=12)


@given(st.lists(_TEXTS))
def test_each_fact_is_shown_as_if_quoted_alone(facts: list[str]) -> None:
    told = "\n".join(f"- {quoted(fact)}" for fact in facts)
    shown = render(Topic(("knee",), facts), 0).user
    assert shown == render(Topic(("knee",), ["MARK"]), 0).user.replace('- "MARK"', told)


def test_what_overflows_is_described_in_rounds() -> None:
    """300 facts of 110 characters: 17 portions of 2,000, their summaries in some more, then one."""
    sizes: list[int] = []

    def answer(topics: Sequence[Topic], prompts: Sequence[Prompt]) -> list[Completion]:
        sizes.append(len(prompts))
        for topic in topics:
            assert sum(map(len, topic.facts)) <= 2000
        return by_rules(topics, prompts)

    found = describe([SMALL, LARGE], answer, 2000)
    assert sizes[0] == 1 + len(split(LARGE.facts, 2000))
    assert sizes[-1] == 1
    assert len(sizes) >= 3
    assert found.calls == sum(sizes)
    assert all(found.found)


def test_long_summaries_of_portions_come_to_an_end() -> None:
    sizes: list[int] = []

    def answer(topics: Sequence[Topic], prompts: Sequence[Prompt]) -> list[Completion]:
        sizes.append(len(prompts))
        assert len(sizes) < 9
        long = Description(name="hip", summary="Exercise treats hip pain. " * 50)
        return [Completion(value=long)] * len(prompts)

    found = describe([Topic(("hip",), ["f" * 700] * 9)], answer, 2000)
    assert sizes == [5, 3, 2, 1]
    assert found.calls == sum(sizes)


def test_every_fact_is_in_one_portion() -> None:
    portions = split(LARGE.facts, 2000)
    assert [fact for portion in portions for fact in portion] == LARGE.facts
    assert split(["y" * 3000, "z"], 2000) == [["y" * 3000], ["z"]]
    assert split([], 2000) == [[]]


def test_what_is_not_answered_stays_open_and_is_counted() -> None:
    def answer(topics: Sequence[Topic], prompts: Sequence[Prompt]) -> list[Completion]:
        return [Completion(fault=Fault("timeout", "late"))] + by_rules(topics, prompts)[1:]

    found = describe([SMALL, SMALL], answer, 2000)
    assert found.found[0] is None
    assert found.found[1] is not None
    assert found.unanswered == 1
    # A portion that is lost leaves the summaries of the others.
    assert describe([LARGE], answer, 2000).unanswered >= 1


@pytest.mark.parametrize("text", ["", " ", "…" * 5000, "A fact."])
def test_the_rules_fit_the_schema_whatever_the_facts(text: str) -> None:
    (answer,) = by_rules([Topic((text,), [text, text])], [])
    assert answer.fault is None or not text.strip()
    if answer.value is not None:
        assert len(answer.value.summary) <= MAX_SUMMARY_CHARS
