"""A bad answer is asked for again, once, with what was wrong shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import pytest

from srrag.llm.completion import NOT_ASKED, Answer, Completion, Fault, Prompt, tallied
from srrag.llm.fields import Items, Text
from srrag.llm.read_answer import read
from srrag.llm.retry_invalid import ask
from tests.engines import Word, good, prompt

BAD = Fault("invalid_json", "not JSON")


@dataclass
class Scripted:
    """Gives each prompt its next text; what `logged` holds is not paid for."""

    texts: dict[str, list[str]]
    fresh: bool = False
    logged: dict[tuple[str, int], str] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    shown: list[tuple[tuple[str, str], ...]] = field(default_factory=list)

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        return [self._one(p, attempt, may) for p, may in zip(prompts, may_call, strict=True)]

    def _one(self, asked: Prompt, attempt: int, may: bool) -> Completion:
        logged = self.logged.get((asked.user, attempt))
        if logged is not None:
            return read(logged, Word)
        if not may:
            return Completion(fault=NOT_ASKED)
        self.asked.append((asked.user, attempt))
        self.shown.append(asked.turns)
        texts = self.texts[asked.user]
        answer = read(texts[min(attempt, len(texts) - 1)], Word)
        return Completion(answer.text, answer.value, answer.fault, paid=True)


def no_check(prompt: Prompt, value: object) -> None:
    return None


def not_nine(prompt: Prompt, value: object) -> Fault | None:
    assert isinstance(value, Word)
    return Fault("nonsense", "Nine is no word.") if "nine" in value.word else None


def test_a_good_answer_is_asked_for_once() -> None:
    client = Scripted({"a": [good("x")]})
    (answer,) = ask(client, [prompt("a")], no_check)
    assert answer.value == Word(word="x")
    assert client.asked == [("a", 0)]


def test_only_the_bad_one_is_asked_again_and_sees_what_was_wrong() -> None:
    client = Scripted({"a": [good("x")], "b": ["no", good("y")]})
    with tallied() as usage:
        answers = ask(client, [prompt("a"), prompt("b")], no_check)
    assert [answer.value.word for answer in answers] == ["x", "y"]
    assert client.asked == [("a", 0), ("b", 0), ("b", 1)]
    ((former, wrong),) = client.shown[2]
    assert former == "no"
    assert "JSON" in wrong
    assert usage.faults == {"invalid_json": 1}


def test_after_the_last_try_the_fault_stays() -> None:
    client = Scripted({"a": ["no", "never", good("late")]})
    (answer,) = ask(client, [prompt("a")], no_check, again=1)
    assert answer.fault is not None
    assert answer.fault.kind == "invalid_json"
    assert len(client.asked) == 2


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        ([good("nine"), good("ten")], "ten"),
        ([good("nine"), "no json"], "nine"),
        ([good("nine"), good("nine lives")], "nine"),
        (["no json", good("nine")], "nine"),
    ],
)
def test_an_answer_that_fails_the_check_is_kept_if_no_better_comes(
    texts: list[str], word: str
) -> None:
    (answer,) = ask(Scripted({"a": texts}), [prompt("a")], not_nine)
    assert answer.value == Word(word=word)


@pytest.mark.parametrize("kind", ["too_long", "refused_call"])
def test_a_call_that_would_fail_again_is_not_made_again(kind: str) -> None:
    class Refusing:
        fresh = False
        calls = 0

        def complete(
            self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
        ) -> list[Completion]:
            self.calls += 1
            return [Completion(fault=Fault(kind, ""), paid=True) for _ in prompts]

    client = Refusing()
    (answer,) = ask(client, [prompt("a")], no_check)
    assert answer.fault == Fault(kind, "")
    assert client.calls == 1


def test_tries_in_the_log_count() -> None:
    client = Scripted({"a": [good("new")]}, logged={("a", 0): "no", ("a", 1): "never"})
    (answer,) = ask(client, [prompt("a")], no_check)
    assert answer.fault is not None
    assert client.asked == []


def test_a_fresh_client_tries_anew_and_later_runs_find_its_answer() -> None:
    logged = {("a", 0): "no", ("a", 1): "never"}
    client = Scripted({"a": [good("new")]}, fresh=True, logged=logged)
    (answer,) = ask(client, [prompt("a")], no_check)
    assert answer.value == Word(word="new")
    assert client.asked == [("a", 2)]
    later = Scripted({}, logged={**logged, ("a", 2): good("new")})
    (found,) = ask(later, [prompt("a")], no_check)
    assert found.value == Word(word="new")
    assert later.asked == []


def test_a_fresh_client_ends_too() -> None:
    client = Scripted({"a": ["no"]}, fresh=True, logged={("a", n): "no" for n in range(4)})
    (answer,) = ask(client, [prompt("a")], no_check)
    assert answer.fault is not None
    assert client.asked == [("a", 4), ("a", 5)]


@dataclass
class Prompts:
    """Gives one text after the other and keeps the prompts."""

    texts: list[str]
    finish: str = "stop"
    fresh: bool = False
    prompts: list[Prompt] = field(default_factory=list)

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        if not may_call[0]:
            return [Completion(fault=NOT_ASKED)]
        self.prompts += prompts
        return [read(self.texts[attempt], prompts[0].schema, self.finish)]


@pytest.mark.parametrize("finish", ["length", "looped"])
def test_what_was_cut_off_is_asked_for_afresh_and_by_chance(finish: str) -> None:
    client = Prompts(['{"word": "wo', good("x")], finish)
    (answer,) = ask(client, [prompt("a")], no_check)
    assert answer.value == Word(word="x")
    first, second = client.prompts
    assert (second.turns, first.temperature, second.temperature) == ((), 0.0, 0.7)
    assert second.user.startswith("a\n\n") and "wo" not in second.user.split()[-1:]
    assert "One JSON object" in second.user


def test_an_example_is_no_answer() -> None:
    asked = replace(prompt("Is heat good?"), system='Such as {"word": "cold and wet"}.')
    client = Prompts([good("cold and wet"), good("cold and wet")])
    (answer,) = ask(client, [asked], no_check)
    assert answer.value is None and answer.fault is not None
    assert answer.fault.kind == "example"
    said = replace(asked, user="Is it cold and wet?")
    (answer,) = ask(Prompts([good("cold and wet")]), [said], no_check)
    assert answer.value == Word(word="cold and wet"), "the question says it too"


class Headings(Answer):
    terms: list[str]


@pytest.mark.parametrize(("terms", "right"), [
    (["Otitis Media", "Amoxicillin", "Child, Preschool"], True),
    (["Amoxicillin", "Child, Preschool"], False),
    (["Dental Caries", "Child, Preschool", "Asthma", "yes"], False),
    (["Otitis Media", "Amoxicillin", "children of two years"], False),
])  # fmt: skip
def test_a_heading_of_the_example_may_be_right_among_others(terms: list[str], right: bool) -> None:
    example = {"terms": ["Dental Caries", "Child, Preschool", "children of two years"]}
    asked = replace(prompt("Otitis in toddlers?"), schema=Headings, system=json.dumps(example))
    (answer,) = ask(Prompts([json.dumps({"terms": terms})] * 2), [asked], no_check)
    assert (answer.fault is None) is right


class Line(Answer):
    text: Annotated[str, Text(3, "words")]


class Lines(Answer):
    lines: Annotated[list[Line], Items(9, "lines", "there is none")]


def lines(*texts: str) -> str:
    return Lines(lines=[Line(text=text) for text in texts]).model_dump_json()


def no_nine(prompt: Prompt, value: object) -> Fault | None:
    assert isinstance(value, Lines)
    wrong = [place for place, line in enumerate(value.lines) if "nine" in line.text]
    items = tuple(("lines", place) for place in wrong)
    return Fault("nonsense", "Nine is no word.", items) if wrong else None


def whole(prompt: Prompt, value: object) -> Fault | None:
    assert isinstance(value, Lines)
    return Fault("nonsense", "Too few.") if len(value.lines) < 2 else None


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ([lines("a", "nine", "c"), lines("b")], ["a", "b", "c"]),
        ([lines("a", "nine", "c"), lines()], ["a", "c"]),
        ([lines("a", "nine", "c"), "no json"], ["a", "nine", "c"]),
        ([lines("a", "nine", "c"), lines("nine lives")], ["a", "nine", "c"]),
        ([lines("a", "nine"), lines("a", "b")], ["a", "b"]),
        ([lines("nine"), lines()], []),
    ],
)
def test_a_retry_mends_the_items_at_fault_and_loses_none_that_stands(
    texts: list[str], kept: list[str]
) -> None:
    client = Prompts(texts)
    (answer,) = ask(client, [replace(prompt("a"), schema=Lines)], no_nine)
    assert [line.text for line in answer.value.lines] == kept


def four(prompt: Prompt, value: object) -> Fault | None:
    assert isinstance(value, Lines)
    lacking = tuple(("lines", place) for place in range(len(value.lines), 4))
    return Fault("incomplete", "There are four.", lacking) if lacking else None


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ([lines("a"), lines("b", "c", "d")], ["a", "b", "c", "d"]),
        ([lines("a"), lines("b", "c")], ["a", "b", "c"]),
        ([lines("a"), lines("a", "b", "c", "d")], ["a", "b", "c", "d"]),
        ([lines("a", "b"), lines()], ["a", "b"]),
        ([lines(), lines("a")], ["a"]),
    ],
)
def test_a_retry_adds_the_items_that_lacked(texts: list[str], kept: list[str]) -> None:
    client = Prompts(texts)
    (answer,) = ask(client, [replace(prompt("a"), schema=Lines)], four)
    assert [line.text for line in answer.value.lines] == kept


def test_a_retry_shows_the_items_at_fault_alone() -> None:
    client = Prompts([lines("a", *["nine"] * 3, "z" * 9000), lines()])
    ask(client, [replace(prompt("a"), schema=Lines)], no_nine)
    ((shown, wrong),) = client.prompts[1].turns
    assert shown == lines("nine", "nine", "nine")
    assert "Nine is no word." in wrong


def test_a_retry_for_what_lacks_shows_what_stands_and_no_empty_answer() -> None:
    client = Prompts([lines("a"), lines("b", "c", "d")])
    ask(client, [replace(prompt("a"), schema=Lines)], four)
    ((shown, wrong),) = client.prompts[1].turns
    assert shown == lines("a")
    assert "There are four." in wrong and "missing" in wrong and "at fault" not in wrong


def test_an_answer_too_long_to_be_shown_is_not_shown_in_part() -> None:
    client = Prompts([lines("z" * 9000), lines("a", "b")])
    (answer,) = ask(client, [replace(prompt("a"), schema=Lines)], whole)
    assert client.prompts[1].turns == ()
    assert "Too few." in client.prompts[1].user
    assert len(answer.value.lines) == 2
