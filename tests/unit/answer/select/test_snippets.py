import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.answer.select.snippets import MAX_SNIPPETS, FindSnippets, Snippets, place, render
from srrag.core.schema import EVIDENCE, empty_value
from srrag.core.step import Place
from srrag.llm.completion import Completion, Fault, read

FLAGS = {
    "contains_population": False,
    "contains_intervention": False,
    "contains_comparator": False,
    "contains_outcome": True,
    "contains_time": True,
    "outcome_and_time_same_window": True,
}
SNIPPET = {"snippet": "Pain fell at 3 months.", "reason": "outcome in time", **FLAGS}
STEP = FindSnippets()
FIRST = "Balance training was tested. Recurrent sprains fell by 29 points\nat 3 months in adults."
SECOND = "Braces reduce recurrent ankle sprains."


def batch(*texts: str) -> pa.Table:
    empty = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    items = [empty | {"evidence_id": f"e{i}", "text": text} for i, text in enumerate(texts, 1)]
    question = "Does balance training reduce recurrent sprains at 3 months in adults?"
    return pa.table({"text": [question], "evidence": pa.array([items], EVIDENCE)})


def parsed(*answers: Completion) -> dict[str, Any]:
    table = batch(FIRST, SECOND)
    rows: list[dict[str, Any]] = STEP.parse(table, STEP.prompts(table), answers).to_pylist()
    return rows[0]


def said(*snippets: str, **flags: bool) -> Completion:
    windows = [{**SNIPPET, **flags, "snippet": text} for text in snippets]
    return read(json.dumps({"windows": windows}), Snippets)


@pytest.mark.parametrize(("count", "fits"), [(0, True), (MAX_SNIPPETS, True), (4, False)])
def test_at_most_three_snippets(count: int, fits: bool) -> None:
    answer = read(json.dumps({"windows": [SNIPPET] * count}), Snippets)
    assert (answer.fault is None) == fits


@pytest.mark.parametrize("name", sorted(SNIPPET))
def test_every_field_of_the_listing_is_needed(name: str) -> None:
    lacking = {key: value for key, value in SNIPPET.items() if key != name}
    assert read(json.dumps({"windows": [lacking]}), Snippets).fault is not None


def test_the_passage_is_shown_as_it_is() -> None:
    system, user = render("Q?", 'Line "one"\nand $two')
    assert "At most 3 snippets" in system
    assert user.endswith('<passage>\nLine "one"\nand $two\n</passage>')


def test_one_prompt_a_window() -> None:
    prompts = STEP.prompts(batch(FIRST, SECOND))
    assert [(prompt.row, prompt.slot) for prompt in prompts] == [(0, "e1"), (0, "e2")]
    assert SECOND in prompts[1].user


def test_a_snippet_is_the_words_of_its_window() -> None:
    row = parsed(said("sprains fell by 29  points at 3 months"), said())
    (snippet,) = row["snippets"]
    assert snippet["text"] == "sprains fell by 29 points\nat 3 months"
    assert FIRST[snippet["char_start"] : snippet["char_end"]] == snippet["text"]
    assert (snippet["evidence_id"], snippet["parts"]) == ("e1", ["O", "T"])
    assert snippet["outcome_with_time"]
    assert row["lost_snippets"] == 0


def test_outcome_with_time_needs_both() -> None:
    row = parsed(said("Balance training", contains_time=False), said())
    assert (row["snippets"][0]["parts"], row["snippets"][0]["outcome_with_time"]) == (["O"], False)


def test_what_is_not_there_is_dropped_and_counted() -> None:
    made_up = said("Balance training", "Sprains rose.", "Balance training")
    row = parsed(made_up, Completion(fault=Fault("timeout", "")))
    assert [each["text"] for each in row["snippets"]] == ["Balance training"]
    assert row["lost_snippets"] == 2
    table = batch(FIRST, SECOND)
    fault = STEP.check(table, STEP.prompts(table)[0], made_up.value)
    assert fault is not None
    assert (fault.kind, "Sprains rose." in fault.detail) == ("ungrounded", True)


@pytest.mark.parametrize(
    "cut", ["fell by 2", "9 points", "alance training", "sprains fel", " ", "a.b"]
)
def test_a_snippet_cuts_no_word_and_no_number(cut: str) -> None:
    assert place(cut, FIRST) is None
    assert place("rose by 0", "It rose by 0.5 points.") is None
    assert place("5 points", "It rose by 0.5 points.") is None


@given(st.text(max_size=80), st.data())
def test_spans_hold_what_was_quoted(passage: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(passage)))
    quote = passage[start : start + 20]
    if span := place(quote, passage):
        assert passage[slice(*span)].split() or not quote.split()
        assert 0 <= span[0] < span[1] <= len(passage)


def test_rules_quote_sentences_with_what_they_state() -> None:
    row = STEP.open(Place())(batch(FIRST, SECOND)).to_pylist()[0]
    texts = {each["evidence_id"]: each["text"] for each in row["snippets"]}
    assert texts["e1"] == "Recurrent sprains fell by 29 points\nat 3 months in adults."
    (first,) = [each for each in row["snippets"] if each["evidence_id"] == "e1"]
    assert "T" in first["parts"]
    assert row["lost_snippets"] == 0
    nothing = pa.table({"text": ["Is ketamine safe?"], "evidence": batch(FIRST)["evidence"]})
    assert STEP.open(Place())(nothing).to_pylist()[0]["snippets"] == []
