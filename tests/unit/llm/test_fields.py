"""What an answer is declared to be is what is said, guided, read and paid for."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

import pydantic
import pytest

from srrag.engine.base import schema_json
from srrag.llm.completion import Answer, PromptFile
from srrag.llm.fields import Items, Means, Text, cut, explained, most_tokens
from srrag.llm.read_answer import read


class Sentence(Answer):
    text: Annotated[str, Text(5, "what is so")]
    cites: Annotated[list[int], Items(3, "numbers of papers", "none says so")]


class Told(Answer):
    example: ClassVar[dict[str, Any] | None] = {
        "reason": "both say so", "verdict": "full",
        "sentences": [{"text": "Heat helps.", "cites": [1]}], "missing": "",
    }  # fmt: skip

    reason: Annotated[str, Text(4, "why")]
    verdict: Annotated[
        Literal["full", "none"], Means("", {"full": "all is said", "none": "nothing is"})
    ]
    sentences: Annotated[list[Sentence], Items(2, "the answer, best first", "nothing is known")]
    missing: Annotated[str, Text(6, "what is not known", "all is known")]


SAID = """\
Answer with one JSON object and nothing else. Its fields, in this order:
- `reason`: at most 4 words: why
- `verdict`: "full" all is said; "none" nothing is
- `sentences`: a list of at most 2: the answer, best first; [] if nothing is known. Each has
  - `text`: at most 5 words: what is so
  - `cites`: a list of at most 3: numbers of papers; [] if none says so
- `missing`: at most 6 words: what is not known; "" if all is known
An example of the form, about another case: {"reason":"both say so","verdict":"full",\
"sentences":[{"text":"Heat helps.","cites":[1]}],"missing":""}"""


def told(**values: Any) -> str:
    return json.dumps({**(Told.example or {}), **values})


def test_fields_limits_and_example_are_said(tmp_path: Any) -> None:
    assert explained(Told) == SAID
    path = tmp_path / "p.md"
    path.write_text("Judge.\n\n$format\n---\nNow: $now\n")
    assert PromptFile(path, Told).system() == f"Judge.\n\n{SAID}"
    assert "at most 1: the answer" in explained(Told, {"Told.sentences": 1})


def test_a_limit_or_value_of_no_field_is_an_error() -> None:
    for limits, enums in (({"Sentences.text": 1}, {}), ({}, {"Sentences.text": ["a"]})):
        with pytest.raises(ValueError, match=r"^Sentences\.text: no field of Told$"):
            explained(Told, {"Sentence.text": 1, **limits}, enums)


def test_a_field_without_a_meaning_is_refused_and_a_fixed_number_is_said_exactly() -> None:
    class Silent(Answer):
        inner: Sentence

    with pytest.raises(ValueError, match=r"Silent\.inner says nothing"):
        explained(Silent)

    class Three(Answer):
        lines: Annotated[list[str], Items(3, "lines", fewest=3)]

    assert "a list of exactly 3: lines" in explained(Three)


def test_the_guide_bounds_lists_and_texts() -> None:
    shape = json.loads(schema_json(Told))
    assert shape["properties"]["sentences"]["maxItems"] == 2
    assert shape["properties"]["reason"]["minLength"] == 1
    assert shape["properties"]["missing"]["maxLength"] >= 6 * 16


def test_the_guide_holds_no_word_of_our_code_but_what_a_field_says_on_purpose() -> None:
    class Marked(Answer):
        """What maintainers read."""

        told: Told
        size: int = pydantic.Field(description="in grams", ge=0, le=9)

    shape = schema_json(Marked)
    assert '"title"' not in shape and "maintainers" not in shape
    assert json.loads(shape)["properties"]["size"]["description"] == "in grams"


def test_what_is_too_long_is_cut_and_not_refused() -> None:
    value = read(told(reason="It is so. It is so indeed. And " + "more " * 99), Told).value
    assert value.reason == "It is so. It is so indeed."
    many = [{"text": f"fact {n}", "cites": [1, 2, 3, 4]} for n in range(5)]
    value = read(told(sentences=many), Told).value
    assert [each.text for each in value.sentences] == ["fact 0", "fact 1"]
    assert value.sentences[0].cites == [1, 2, 3]


def test_a_bad_item_costs_itself() -> None:
    bad: list[Any] = [{"text": "", "cites": []}, {"cites": [1]}, 3, {"text": "good", "cites": [1]}]
    found = read(told(sentences=bad), Told)
    assert [each.text for each in found.value.sentences] == ["good"]
    assert found.lost == 3
    assert read(told(sentences=bad[:3]), Told).fault is not None


@pytest.mark.parametrize("change", [{"reason": " "}, {"verdict": "some"}, {"missing": None}])
def test_what_may_not_be_empty_or_is_of_another_kind_is_a_fault(change: dict[str, Any]) -> None:
    assert read(told(**change), Told).fault is not None


def test_what_was_cut_off_within_a_list_keeps_its_whole_items() -> None:
    text = told(sentences=[{"text": "one", "cites": []}, {"text": "two", "cites": []}])
    value = read(text[: text.index("two")], Told, "length").value
    assert [each.text for each in value.sentences] == ["one"]
    assert value.missing == ""


def test_tokens_follow_from_the_limits() -> None:
    class Long(Answer):
        lines: Annotated[list[Annotated[str, Text(40, "a line")]], Items(50, "lines")]

    assert most_tokens(Told) == 512
    assert 40 * 50 < most_tokens(Long) < 2 * 40 * 50
    assert "each a line, at most 40 words" in explained(Long)


def test_a_text_is_cut_at_a_sentence_or_else_at_a_word() -> None:
    assert cut("One two. Three four. Five six.", 4) == "One two. Three four."
    assert cut("One two. Three four. Five six.", 5) == "One two. Three four."
    assert cut("one two three", 2) == "one two"
    assert cut("one  two", 2) == "one  two"
