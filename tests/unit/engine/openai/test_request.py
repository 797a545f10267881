"""Requests as endpoints want them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import Field

from srrag.engine.call import Call, key_of
from srrag.engine.openai import request
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Answer, Prompt


class Item(Answer):
    minimum: Annotated[str, Field(min_length=1, max_length=9)]


class Shape(Answer):
    items: Annotated[list[Item], Field(max_length=3)]
    share: Annotated[float, Field(ge=0, le=1)]


CALL = Call(b"k" * 16, Prompt(0, "", "Be brief.", "What helps?", Shape, max_tokens=77))


def body(structured: str = "json_schema", strict: bool = True, bounds: str = "all") -> Any:
    return json.loads(request.Dialect("m", structured, strict, bounds).request(CALL))


def test_a_request_carries_prompt_sampling_and_schema() -> None:
    asked = body()
    assert asked["messages"][1] == {"role": "user", "content": "What helps?"}
    assert asked["max_tokens"] == 77 and asked["temperature"] == 0.0
    assert asked["seed"] == CALL.seed and "stream" not in asked
    given_schema = asked["response_format"]["json_schema"]
    assert given_schema == {"name": "Shape", "schema": Shape.model_json_schema(), "strict": True}


def test_bounds_are_dropped_but_not_a_property_of_that_name() -> None:
    text = json.dumps(body(bounds="none", strict=False)["response_format"])
    dropped = request.LENGTHS | request.NUMBERS
    assert not any(f'"{word}": ' in text for word in dropped - {"minimum"})
    schema = body(bounds="none")["response_format"]["json_schema"]["schema"]
    assert schema["$defs"]["Item"]["properties"]["minimum"] == {"type": "string"}
    assert "minimum" not in schema["properties"]["share"]
    some = json.dumps(body(bounds="items")["response_format"])
    assert '"maxItems": 3' in some and "Length" not in some


def test_without_guidance_the_model_is_told_the_schema() -> None:
    for structured, form in (("json_object", {"type": "json_object"}), ("none", None)):
        asked = body(structured)
        assert asked.get("response_format") == form
        last = asked["messages"][0]["content"].rpartition("\n")[2]
        assert json.loads(last) == Shape.model_json_schema()
    assert CALL.messages()[0]["content"] == "Be brief."


@pytest.mark.parametrize("structured", ["json_schema", "json_object", "none"])
def test_every_endpoint_is_asked_for_compact_json(structured: str) -> None:
    system, user = body(structured)["messages"]
    assert "on one line" in system["content"]
    assert system["content"] == "Be brief." + request.appended(Shape, structured)
    assert user["content"] == "What helps?"


def test_the_schema_allows_the_prompt_s_values_alone() -> None:
    prompt = replace(CALL.prompt, enums=(("Item.minimum", ("b", "a")),))
    dialect = request.Dialect("m", "json_schema", True, "all")
    sent = json.loads(dialect.request(replace(CALL, prompt=prompt)))
    schema = sent["response_format"]["json_schema"]["schema"]
    field = schema["$defs"]["Item"]["properties"]["minimum"]
    assert field == {"type": "string", "enum": ["b", "a"]}
    assert "enum" not in json.dumps(Shape.model_json_schema()), "the model's own is as it was"
    other = replace(prompt, enums=(("Item.minimum", ("b",)),))
    keys = {key_of(HttpEngine(model="m"), each) for each in (prompt, other, CALL.prompt)}
    assert len(keys) == 3, "what guides an answer is part of its key"


def without(message: str, **fields: Any) -> frozenset[str]:
    """The fields that an endpoint refuses by this message."""
    learned = request.Dialect("m", "none", True, "all", **fields).without(message)
    return learned.refused if learned else frozenset()


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        (  # OpenAI's o-series and GPT-5
            "HTTP 400: Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            {"max_tokens"},
        ),
        (
            "HTTP 400: Unsupported value: 'temperature' does not support 0 with this model. Only "
            "the default (1) value is supported.",
            {"temperature"},
        ),
        ("HTTP 400: `temperature` is deprecated for this model.", {"temperature"}),
        ("HTTP 422: body.seed: Extra inputs are not permitted", {"seed"}),  # Mistral
        ('HTTP 400: Unknown name "seed": Cannot find field.', {"seed"}),  # Gemini
        ("HTTP 400: Unrecognized request argument supplied: stream_options", {"stream_options"}),
        ("HTTP 400: max_tokens is too large: 9000. This model supports at most 4096", set()),
        (  # vLLM
            "HTTP 400: 'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's "
            "maximum context length is 4096 tokens and your request has 100 input tokens",
            set(),
        ),
        ("HTTP 400: keyword minItems is not supported", set()),
        ("HTTP 400: no temperature_schedule is supported", set()),
    ],
)
def test_a_field_that_the_endpoint_refuses_is_left_out(message: str, refused: set[str]) -> None:
    assert without(message) == refused
    assert without(message, refused=frozenset(request.OPTIONAL)) == frozenset()


def test_what_is_refused_is_not_sent_and_the_limit_has_its_other_name() -> None:
    asked = request.Dialect("m", "none", True, "all", 300, frozenset({"max_tokens", "seed"}))
    sent = json.loads(asked.request(CALL, stream=True))
    assert sent["max_completion_tokens"] == 77 + 300 == asked.limit(CALL.prompt)
    assert not {"max_tokens", "seed"} & sent.keys() and "temperature" in sent
