"""Answers that repeat whole items are noticed while they are written, and keep what they hold."""

import json
import time

import pytest
from pydantic import Field

from srrag.expand.picot_anchors import PROMPT
from srrag.llm.completion import Answer
from srrag.llm.read_answer import LoopWatch, ended, read, read_logged, repeated, salvaged
from srrag.llm.retry_invalid import example_words


class Fact(Answer):
    head: str
    head_type: str
    relation: str
    tail: str
    tail_type: str
    quote: str
    confidence: float = Field(le=1.0)


class Extraction(Answer):
    facts: list[Fact]
    attributes: list[Fact]
    proposals: list[Fact]


class Lines(Answer):
    one: list[str]
    other: list[str]


def fact(head: str) -> str:
    return json.dumps(
        {"head": head, "head_type": "Intervention", "relation": "reduces", "tail": "pain",
         "tail_type": "Outcome", "quote": f"{head} \"reduces\" pain [1] {{x}}", "confidence": 0.9},
        separators=(",", ":"),
    )  # fmt: skip


def looping(copies: int, end: str = "") -> str:
    return '{"facts":[' + ",".join([fact("rest"), *[fact("exercise")] * copies]) + end


def test_a_repeated_object_is_a_loop_from_its_second_copy() -> None:
    text = looping(9, "," + fact("exercise")[:50])
    start = repeated(text)
    assert start is not None
    kept = text[:start]
    assert kept.count('"head":"exercise"') <= 2 < text.count('"head":"exercise"')


def test_what_reached_its_limit_in_a_loop_is_cut_to_the_first_copy() -> None:
    text = looping(9, "," + fact("exercise")[:50])
    assert ended(text, "length") == (text[: repeated(text)], "looped")
    assert ended(text, "stop") == (text, "stop")
    assert ended("so far", "length") == ("so far", "length")


@pytest.mark.parametrize(
    "text",
    [
        looping(2, "]}"),
        '{"facts":[' + ",".join(fact(f"drug {n}") for n in range(40)) + "]}",
        "ab" * 150,
        "",
    ],
)
def test_a_list_of_different_items_is_none(text: str) -> None:
    assert repeated(text) is None


def test_short_and_long_periods_are_found() -> None:
    assert repeated("start " + "no, " * 200) is not None
    item = "".join(chr(97 + (n * 7 + n // 26) % 26) for n in range(1900))
    assert repeated("x" + item * 3 + item[:200]) is not None
    assert repeated("x" + item * 2) is None


def test_the_watch_stops_early_and_costs_little() -> None:
    watch, text = LoopWatch(), looping(30)
    heard = next(n for n in range(0, len(text), 7) if watch.loops(text[n : n + 7]))
    assert heard < 6 * len(fact("exercise"))
    fine, began = LoopWatch(), time.process_time()
    said = ",".join(fact(f"drug {n}") for n in range(400))
    assert not any(fine.loops(said[n : n + 20]) for n in range(0, len(said), 20))
    assert time.process_time() - began < 10


def test_complete_items_of_a_truncated_list_are_kept_once() -> None:
    answer = salvaged(looping(5, "," + fact("cold")[:40]), Extraction)
    assert answer is not None
    assert [each.head for each in answer.facts] == ["rest", "exercise"]
    assert answer.attributes == answer.proposals == []
    found = read(looping(5, "," + fact("cold")[:40]), Extraction, "length")
    assert found.fault is None and found.value == answer
    whole = read(looping(5, "," + fact("cold")[:40]), Extraction)
    assert whole.fault is not None, "only what was cut off: else a second try may be whole"
    text = looping(5, "," + fact("cold")[:40])
    assert read_logged(text, "", Extraction).value == answer
    assert read_logged(text, "invalid_json", Extraction).fault == whole.fault


@pytest.mark.parametrize("text", ['{"facts":[', '{"facts":[]', "[1,2", '{"facts":["x","y', ""])
def test_nothing_is_salvaged_of_nothing(text: str) -> None:
    assert salvaged(text, Extraction) is None


def test_complete_texts_of_a_truncated_list_are_kept() -> None:
    answer = salvaged('{"one":["a \\"b\\"","c [d","a \\"b\\"","e', Lines)
    assert answer == Lines(one=['a "b"', "c [d"], other=[])
    assert salvaged('{"one":["a"],"other":["b","c', Lines) == Lines(one=["a"], other=["b"])
    assert salvaged('{"one":["a', Lines) is None


def test_a_schema_that_does_not_allow_it_is_a_fault() -> None:
    cut = looping(30).replace("0.9", "7")
    assert read(cut, Extraction, "length").fault.kind == "looped"  # type: ignore[union-attr]
    assert read("{", Extraction, "looped").fault.kind == "looped"  # type: ignore[union-attr]


def test_examples_are_the_free_texts_of_a_prompt() -> None:
    assert example_words(PROMPT.system()) == {"for two years", "fluoride paint"}
    assert example_words('{"reason": "…", "verdict": "supports", "n": [1]} {broken') == {"…"}
