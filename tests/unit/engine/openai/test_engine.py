"""The engine's fields: what is identity, what is refused, and that keys stay unseen."""

from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

import pytest
import yaml
from pydantic import Field

from srrag.core.spec import build, spec
from srrag.engine.base import Call, key_of
from srrag.engine.openai.engine import LENGTHS, NUMBERS, OPTIONAL, Dialect, HttpEngine, appended
from srrag.llm.completion import Answer, EngineStopped, Prompt


def test_only_what_decides_an_answer_is_identity() -> None:
    here = HttpEngine(model="m", base_url="http://a/v1", api_key_env="KEY", concurrency=3)
    assert spec(here) == {"_target_": "HttpEngine", "model": "m"}
    assert spec(HttpEngine(model="m", strict=False)) != spec(here)
    assert pickle.loads(pickle.dumps(here)) == here


def test_thinking_is_identity_and_how_the_endpoint_is_reached_is_not() -> None:
    azure = HttpEngine(model="m", headers=("api-key: $AZURE_KEY",), query="api-version=2024-10-21")
    assert spec(azure) == spec(HttpEngine(model="m")) != spec(HttpEngine(model="m", thinking=9))


def test_names() -> None:
    assert HttpEngine(model="m").name == "http: m"
    assert HttpEngine(model="m", revision="r1").name == "http: m@r1"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", " "), ("structured", "xml"), ("concurrency", 0), ("timeout_s", 0.0),
        ("max_retries", -1), ("usd_per_mtok_in", -1.0), ("thinking", -1),
        ("tokens_per_s_out", 0.0), ("base_url", "ftp://h/v1"), ("base_url", "h:8000/v1"),
        ("base_url", "http://user:SECRET@h/v1"), ("base_url", "https://h/v1?key=SECRET"),
        ("base_url", "http://h:port/v1"), ("base_url", "http:///v1"), ("api_key_env", "sk-SECRET"),
        ("headers", ("api-key: SECRET",)), ("headers", ("Authorization: Bearer SECRET",)),
        ("headers", ("Authorization: Bearer SECRET-1 $HOME",)), ("query", "key=SECRET$HOME"),
        ("headers", ("api-key: $HOME SECRET",)), ("headers", ("no header",)),
        ("headers", ("X-A: a\r\nX-B: b",)),
        ("query", "key=SECRET"), ("query", "api-version"), ("query", "a=1#SECRET"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_and_no_secret_shown(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^engine http: {field} ") as caught:
        HttpEngine(**{"model": "m", field: value})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", ["$KEY", "Bearer $KEY", "Api-Key $KEY"])
def test_a_secret_is_a_variable_after_the_word_of_its_scheme(value: str) -> None:
    assert HttpEngine(model="m", headers=(f"Authorization: {value}",)).headers


@pytest.mark.parametrize("value", ["", "  ", "kéy", "a\nb"])
def test_a_key_that_is_missing_or_cannot_be_sent(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    for fields in ({"api_key_env": "SOME_KEY"}, {"headers": ("api-key: $SOME_KEY",)}):
        with pytest.raises(EngineStopped, match="SOME_KEY") as caught:
            asyncio.run(HttpEngine(model="m", **fields).open())  # type: ignore[arg-type]
        assert value.strip() == "" or value not in str(caught.value)


@pytest.mark.parametrize("key", ["abc", 'a"b/c\\d e&f', "sk-$x.*[1]", "%41+"])
def test_a_secret_is_hidden_in_every_spelling(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", key)
    monkeypatch.setenv("PART", key[:2])
    engine = HttpEngine(model="m", query="key=$SOME_KEY&code=$PART")
    spelt = [key, quote(key), quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1]]
    spelt += [json.dumps(key)[1:-1].replace("/", r"\/"), "".join(rf"\u{ord(c):04X}" for c in key)]
    for each in spelt:
        assert engine.address().hide(f"[{each}]") == "[***]"


def test_the_conf_file_builds() -> None:
    path = Path(__file__).resolve().parents[4] / "conf" / "engine" / "http.yaml"
    assert isinstance(build(yaml.safe_load(path.read_text("utf-8"))), HttpEngine)


class Item(Answer):
    minimum: Annotated[str, Field(min_length=1, max_length=9)]


class Shape(Answer):
    items: Annotated[list[Item], Field(max_length=3)]
    share: Annotated[float, Field(ge=0, le=1)]


CALL = Call(b"k" * 16, Prompt(0, "", "Be brief.", "What helps?", Shape, max_tokens=77))


def body(structured: str = "json_schema", strict: bool = True, bounds: str = "all") -> Any:
    return json.loads(Dialect("m", structured, strict, bounds).request(CALL))


def test_a_request_carries_prompt_sampling_and_schema() -> None:
    asked = body()
    assert asked["messages"][1] == {"role": "user", "content": "What helps?"}
    assert asked["max_tokens"] == 77 and asked["temperature"] == 0.0
    assert asked["seed"] == CALL.seed and "stream" not in asked
    given_schema = asked["response_format"]["json_schema"]
    assert given_schema == {"name": "Shape", "schema": Shape.model_json_schema(), "strict": True}


def test_bounds_are_dropped_but_not_a_property_of_that_name() -> None:
    text = json.dumps(body(bounds="none", strict=False)["response_format"])
    dropped = LENGTHS | NUMBERS
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
    assert system["content"] == "Be brief." + appended(Shape, structured)
    assert user["content"] == "What helps?"


def test_the_schema_allows_the_prompt_s_values_alone() -> None:
    prompt = replace(CALL.prompt, enums=(("Item.minimum", ("b", "a")),))
    dialect = Dialect("m", "json_schema", True, "all")
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
    learned = Dialect("m", "none", True, "all", **fields).without(message)
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
    assert without(message, refused=frozenset(OPTIONAL)) == frozenset()


def test_what_is_refused_is_not_sent_and_the_limit_has_its_other_name() -> None:
    asked = Dialect("m", "none", True, "all", 300, frozenset({"max_tokens", "seed"}))
    sent = json.loads(asked.request(CALL, stream=True))
    assert sent["max_completion_tokens"] == 77 + 300 == asked.limit(CALL.prompt)
    assert not {"max_tokens", "seed"} & sent.keys() and "temperature" in sent
