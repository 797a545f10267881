"""The protocol: requests as endpoints want them, responses read without trust."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from srrag.engine.call import Call, key_of
from srrag.engine.openai import protocol
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Answer, Prompt, read


class Item(Answer):
    minimum: Annotated[str, Field(min_length=1, max_length=9)]


class Shape(Answer):
    items: Annotated[list[Item], Field(max_length=3)]
    share: Annotated[float, Field(ge=0, le=1)]


CALL = Call(b"k" * 16, Prompt(0, "", "Be brief.", "What helps?", Shape, max_tokens=77))


def body(structured: str = "json_schema", strict: bool = True, bounds: str = "all") -> Any:
    return json.loads(protocol.Dialect("m", structured, strict, bounds).request(CALL))


def response(**message: Any) -> bytes:
    finish = message.pop("finish", "stop")
    usage = message.pop("usage", {"prompt_tokens": 5, "completion_tokens": 2})
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": usage, "extra": 1}).encode()


def test_a_request_carries_prompt_sampling_and_schema() -> None:
    asked = body()
    assert asked["messages"][1] == {"role": "user", "content": "What helps?"}
    assert asked["max_tokens"] == 77 and asked["temperature"] == 0.0
    assert asked["seed"] == CALL.seed and "stream" not in asked
    given_schema = asked["response_format"]["json_schema"]
    assert given_schema == {"name": "Shape", "schema": Shape.model_json_schema(), "strict": True}


def test_bounds_are_dropped_but_not_a_property_of_that_name() -> None:
    text = json.dumps(body(bounds="none", strict=False)["response_format"])
    dropped = protocol.LENGTHS | protocol.NUMBERS
    assert not any(f'"{word}": ' in text for word in dropped - {"minimum"})
    schema = body(bounds="none")["response_format"]["json_schema"]["schema"]
    assert schema["$defs"]["Item"]["properties"]["minimum"] == {
        "title": "Minimum",
        "type": "string",
    }
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


def test_a_completion_is_read() -> None:
    reply = protocol.read_completion(response(content="{}", finish="length"), CALL)
    assert (reply.text, reply.finish, reply.tokens_in, reply.tokens_out) == ("{}", "length", 5, 2)
    assert protocol.read_completion(response(content=None), CALL).text == ""


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}])
def test_missing_usage_is_estimated(usage: Any) -> None:
    reply = protocol.read_completion(response(content="äää", usage=usage), CALL)
    # "Be brief." + "What helps?" = 20 bytes; three characters of two bytes.
    assert (reply.tokens_in, reply.tokens_out) == (5, 2)


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": "I can't help with that."},
        {"content": '{"items": [', "finish": "content_filter"},
    ],
)
def test_a_refusal_is_judged_as_one(message: dict[str, Any]) -> None:
    reply = protocol.read_completion(response(**message), CALL)
    fault = read(reply.text, Shape, reply.finish).fault
    assert fault is not None and fault.kind == "refusal"


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"null", b"[]", b"<html>", b'{"choices": []}', b'{"choices": [{}]}', b"\xff\xfe",
        b'{"choices": [{"message": {"content": 3}}]}', b'{"error": {"message": "x"}}', b"[" * 10**5,
    ],
)  # fmt: skip
def test_what_is_no_completion_is_a_passing_fault_of_the_server(bad: bytes) -> None:
    with pytest.raises(protocol.AttemptError) as caught:
        protocol.read_completion(bad, CALL)
    assert caught.value.passing and caught.value.fault.kind == "server"


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(noise: bytes) -> None:
    with pytest.raises(protocol.AttemptError):
        protocol.read_completion(noise, CALL)
    protocol.read_error(500, {}, noise)
    try:
        protocol.read_event(noise)
    except protocol.AttemptError:
        assert noise.strip().startswith(b"data:")


@pytest.mark.parametrize(
    ("status", "message", "kind", "passing", "hopeless"),
    [
        (400, "This model's maximum context length is 4096 tokens.", "too_long", False, False),
        (400, "max_tokens must be at least 1, got -186.", "too_long", False, False),
        (400, "the request exceeds the available context size", "too_long", False, False),
        (413, "", "too_long", False, False),
        (400, "keyword minItems is not supported", "refused_call", False, False),
        (422, "no field seed", "refused_call", False, False),
        (401, "bad key", "refused_call", False, True),
        (404, "no such model", "refused_call", False, True),
        (308, "", "refused_call", False, True),
        (408, "", "server", True, False),
        (429, "slow down", "server", True, False),
        (500, "oops", "server", True, False),
        (503, "busy", "server", True, False),
    ],
)
def test_a_status_says_what_to_do(
    status: int, message: str, kind: str, passing: bool, hopeless: bool
) -> None:
    error = json.dumps({"error": {"message": message}}).encode()
    trouble = protocol.read_error(status, {}, error)
    assert (trouble.fault.kind, trouble.passing, trouble.hopeless) == (kind, passing, hopeless)
    assert message in trouble.fault.detail and str(status) in trouble.fault.detail


def test_a_spent_quota_is_no_rate_limit() -> None:
    error = b'{"error": {"message": "pay", "code": "insufficient_quota"}}'
    assert protocol.read_error(429, {}, error).hopeless


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7), ("0", 0), ("100", 100), ("86400", protocol.MAX_WAIT_S), ("-3", 0), ("", 0),
        ("soon", 0), ("nan", 0), ("Thu, 01 Jan 1970 00:16:50 GMT", 10),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", protocol.MAX_WAIT_S),
    ],
)  # fmt: skip
def test_retry_after_as_number_and_date(value: str, seconds: float) -> None:
    assert protocol.retry_after(value, now=1000.0) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_bounded(value: str) -> None:
    assert 0 <= protocol.retry_after(value) <= protocol.MAX_WAIT_S


@given(st.integers(0, 60), st.floats(0, 120), st.floats(0, 1, exclude_max=True))
def test_a_pause_doubles_within_bounds_and_is_never_shorter_than_asked(
    retry: int, asked: float, jitter: float
) -> None:
    step = min(0.5 * 2**retry, 30.0)
    assert asked + step / 2 <= protocol.backoff(retry, asked, jitter) <= asked + step


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (b": comment", protocol.Event()), (b"", protocol.Event()), (b"event: x", protocol.Event()),
        (b"data: [DONE]\r", protocol.Event(last=True)),
        (b'data: {"choices": []}', protocol.Event()),
        (b'data:{"choices": [{"delta": {"content": "ab"}}]}', protocol.Event("ab")),
        (
            b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}',
            protocol.Event("", "stop"),
        ),
        (
            b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}',
            protocol.Event(usage=protocol.EndpointUsage(prompt_tokens=5, completion_tokens=2)),
        ),
    ],
)  # fmt: skip
def test_a_line_of_a_stream(line: bytes, event: protocol.Event) -> None:
    assert protocol.read_event(line) == event


def test_an_error_within_a_stream_is_trouble() -> None:
    with pytest.raises(protocol.AttemptError, match="out of memory"):
        protocol.read_event(b'data: {"error": {"message": "out of memory"}}')


@pytest.mark.parametrize("structured", ["json_schema", "json_object", "none"])
def test_every_endpoint_is_asked_for_compact_json(structured: str) -> None:
    system, user = body(structured)["messages"]
    assert "on one line" in system["content"]
    assert system["content"] == "Be brief." + protocol.appended(Shape, structured)
    assert user["content"] == "What helps?"


def test_the_schema_allows_the_prompt_s_values_alone() -> None:
    prompt = replace(CALL.prompt, enums=(("Item.minimum", ("b", "a")),))
    dialect = protocol.Dialect("m", "json_schema", True, "all")
    sent = json.loads(dialect.request(replace(CALL, prompt=prompt)))
    schema = sent["response_format"]["json_schema"]["schema"]
    field = schema["$defs"]["Item"]["properties"]["minimum"]
    assert field == {"type": "string", "enum": ["b", "a"]}
    assert "enum" not in json.dumps(Shape.model_json_schema()), "the model's own is as it was"
    other = replace(prompt, enums=(("Item.minimum", ("b",)),))
    keys = {key_of(HttpEngine(model="m"), each) for each in (prompt, other, CALL.prompt)}
    assert len(keys) == 3, "what guides an answer is part of its key"
