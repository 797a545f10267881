"""Responses of the endpoints of the world, read without trust."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from srrag.engine.base import Call, Reply
from srrag.engine.openai import protocol
from srrag.engine.openai.protocol import Event, Said
from srrag.llm.completion import Answer, Prompt
from srrag.llm.read_answer import read


class Item(Answer):
    minimum: Annotated[str, Field(min_length=1, max_length=9)]


class Shape(Answer):
    items: Annotated[list[Item], Field(max_length=3)]
    share: Annotated[float, Field(ge=0, le=1)]


CALL = Call(b"k" * 16, Prompt(0, "", "Be brief.", "What helps?", Shape, max_tokens=77))
LIMIT = 77
ANSWER = '{"items": [], "share": 0.5}'
CALLED = {"name": "answer", "arguments": ANSWER}


@pytest.mark.parametrize(
    "message",
    [
        {"content": ANSWER},
        {"content": ANSWER, "refusal": None, "annotations": [], "audio": None},  # OpenAI
        {"content": [{"type": "text", "text": ANSWER}]},
        {"content": [{"type": "output_text", "text": ANSWER[:9]}, ANSWER[9:]]},
        {"content": json.loads(ANSWER)},
        {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": CALLED}]},
        {"content": "", "function_call": CALLED},
        {"content": "", "tool_calls": [{"function": {"arguments": json.loads(ANSWER)}}]},
        {"content": ANSWER, "tool_calls": []},
        {"content": ANSWER, "finish": None},
        {"content": ANSWER, "finish": "eos_token"},
        {"content": ANSWER, "finish": "tool_calls"},
        {"content": ANSWER, "reasoning_content": None},
        {"content": ANSWER, "reasoning": True, "thinking": 3},
        {"content": ANSWER, "reasoning": True, "reasoning_details": ["It is so.", 3]},
        {"content": [3, {"type": "thinking", "thinking": 3}, {"type": "text", "text": ANSWER}]},
        {"content": f"<think>It is so.</think>\n\n{ANSWER}"},  # no reasoning parser
        {"content": f"\n\n{ANSWER}", "reasoning_content": "It is so."},  # DeepSeek, llama.cpp
        {"content": ANSWER, "reasoning": "It is so."},  # Ollama, vLLM, OpenRouter
        {
            "content": ANSWER,
            "reasoning_details": [{"type": "reasoning.text", "text": "It is so."}],
        },
        {  # Mistral
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "It is so."}]},
                {"type": "text", "text": ANSWER},
            ]
        },
    ],
)
def test_an_answer_is_found_wherever_an_endpoint_puts_it(message: dict[str, Any]) -> None:
    thinks = "It is so." in json.dumps(message)
    reply = completed(**message)
    found = read(reply.text, Shape, reply.finish)
    assert found.value == Shape(items=[], share=0.5)
    assert ("<think>It is so.</think>" in reply.text) == thinks, "the log keeps what was paid for"
    assert "It is so." not in found.text


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"content": None}, "empty"),
        ({"content": [], "finish": "length"}, "empty"),
        ({"content": None, "reasoning": "Let me see", "finish": "length"}, "only_thinking"),
        ({"content": "<think>Let me see", "finish": "length"}, "only_thinking"),
        ({"content": ANSWER[:20], "finish": "MAX_TOKENS"}, "truncated"),
        ({"content": ANSWER[:20], "finish": "model_length"}, "truncated"),
        ({"content": ANSWER[:20], "finish": "error"}, "truncated"),
        ({"content": [{"type": "refusal", "refusal": "No, sorry."}]}, "refusal"),
        ({"content": "", "refusal": "I can't help with that."}, "refusal"),
        ({"content": ANSWER[:20], "finish": "SAFETY"}, "refusal"),
        ({"content": None, "finish": "content_filter"}, "refusal"),
    ],
)
def test_an_answer_of_no_use_has_its_kind_and_keeps_its_text(
    message: dict[str, Any], kind: str
) -> None:
    reply = completed(**message)
    fault = read(reply.text, Shape, reply.finish).fault
    assert fault is not None and fault.kind == kind
    if isinstance(message["content"], str):
        assert message["content"] in reply.text


OWN_IN, OWN_OUT = 5, 7
MOST_IN = CALL.most_tokens_in
MOST_OUT = LIMIT + protocol.HIDDEN_TOKENS


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 6, "completion_tokens": 9, "total_tokens": 15}, (6, 9)),
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4)),
        ({"prompt_tokens": 6.2, "completion_tokens": 9.0}, (7, 9)),
        ({"prompt_tokens": "6", "completion_tokens": "9"}, (6, 9)),
        ({"prompt_tokens": 6, "completion_tokens": 9, "total_tokens": 45}, (6, 39)),  # hidden
        ({"prompt_tokens": 0, "completion_tokens": 0}, (OWN_IN, OWN_OUT)),
        ({"prompt_tokens": -(10**6), "completion_tokens": -1}, (OWN_IN, OWN_OUT)),
        ({"prompt_tokens": 2, "completion_tokens": 3}, (OWN_IN, OWN_OUT)),
        ({"prompt_tokens": 6, "completion_tokens": 9000}, (6, 9000)),  # hidden, and billed
        ({"prompt_tokens": 10**30, "completion_tokens": 5 * 10**5}, (MOST_IN, MOST_OUT)),
        ({"prompt_tokens": "many", "completion_tokens": True}, (OWN_IN, OWN_OUT)),
        ({"prompt_tokens": float("inf"), "completion_tokens": float("nan")}, (OWN_IN, OWN_OUT)),
        ({"prompt_tokens": [6], "completion_tokens": {}}, (OWN_IN, OWN_OUT)),
        ({"total_tokens": 9}, (OWN_IN, OWN_OUT)),
        ([], (OWN_IN, OWN_OUT)),
        (None, (OWN_IN, OWN_OUT)),
    ],
)
def test_no_count_of_an_endpoint_passes_a_ceiling(usage: Any, counts: tuple[int, int]) -> None:
    reply = completed(content=ANSWER, usage=usage)
    assert (reply.tokens_in, reply.tokens_out) == counts


@pytest.mark.parametrize(
    ("usage", "thought", "note"),
    [
        ({"completion_tokens": 9}, 0, ""),
        ({"completion_tokens": LIMIT}, 0, ""),
        ({"completion_tokens": 9000}, 9000 - OWN_OUT, "it counted 9,000 tokens where 77 were"),
        ({"completion_tokens": 60, "completion_tokens_details": {"reasoning_tokens": 50}}, 50, ""),
        ({"completion_tokens": 60, "completion_tokens_details": {"reasoning_tokens": 999}}, 60, ""),
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": -4}}, 0, ""),
        ({"completion_tokens": 9, "completion_tokens_details": [3]}, 0, ""),
    ],
)
def test_thinking_that_is_not_shown_is_counted_and_told_where_it_has_no_room(
    usage: dict[str, Any], thought: int, note: str
) -> None:
    reply = completed(content=ANSWER, usage={"prompt_tokens": 6, **usage})
    assert reply.tokens_thought == thought
    assert reply.note.startswith(note) and bool(reply.note) == bool(note)


def test_an_answer_longer_than_its_limit_is_counted_by_its_length() -> None:
    reply = completed(content="word " * 400, usage={"prompt_tokens": 6, "completion_tokens": 8})
    assert reply.tokens_out == 500 > LIMIT and not reply.note, "it shows what it is paid for"


def test_a_prompt_that_the_endpoint_cut_is_noticed() -> None:
    long = Call(b"k" * 16, Prompt(0, "", "", "word " * 1028, Shape))
    counted = {"prompt_tokens": 60, "completion_tokens": 2}
    reply = protocol.read_completion(response(content="{}", usage=counted), long, LIMIT)
    assert "counted 60 tokens in a prompt of about 1,285" in reply.note
    assert reply.tokens_in == 1285
    assert completed(content="{}").note == ""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "told", "type": "x", "param": None, "code": 400}}, "told"),  # vLLM
        ({"object": "error", "message": "told", "type": "BadRequestError", "code": 400}, "told"),
        (  # llama.cpp
            {"error": {"code": 400, "message": "told", "n_prompt_tokens": 9, "n_ctx": 8}},
            "told",
        ),
        ({"error": "told"}, "told"),  # Ollama
        ([{"error": {"code": 400, "message": "told", "status": "X"}}], "told"),  # Gemini
        ({"detail": "told"}, "told"),
        (
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "told"}]},
            "body.seed: told",
        ),
        (
            {"object": "error", "message": {"detail": [{"loc": ["body"], "msg": "told"}]}},
            "body: told",
        ),
        ({"errors": [{"message": "told"}]}, "told"),
        ({"title": "told", "status": 400}, "told"),
        (  # OpenRouter
            {
                "error": {
                    "message": "Provider returned error",
                    "metadata": {"raw": '{"error":"told"}'},
                }
            },
            "Provider returned error: told",
        ),
        ({"error": {"error": {"message": "told"}}}, "told"),
        ({"detail": '{"error": {"message": "told"}}'}, "told"),
        ({"status": 7}, '{"status": 7}'),
        ({"error": {}}, '{"error": {}}'),
    ],
)
def test_an_error_holds_the_endpoint_s_own_message(body: Any, message: str) -> None:
    told = protocol.read_error(400, {}, json.dumps(body).encode()).fault.detail
    assert told == f"HTTP 400: {message}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"told\nin lines\x00", "told in lines"),
        (b"<html><head><style>p {}</style><title>502</title></head>told</html>", "502 told"),
        (b"[" * 5000, "[" * 290),
        (b'{"error":' * 40 + b'"deep"' + b"}" * 40, '{"error": {"error"'),
    ],
)
def test_any_body_of_an_error_is_one_bounded_line(body: bytes, message: str) -> None:
    told = protocol.read_error(500, {}, body).fault.detail
    assert " ".join(told.split()) == told.strip() and len(told) <= 300
    assert message in told


def response(**message: Any) -> bytes:
    finish = message.pop("finish", "stop")
    usage = message.pop("usage", {"prompt_tokens": 5, "completion_tokens": 2})
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": usage, "extra": 1}).encode()


def completed(**message: Any) -> Reply:
    return protocol.read_completion(response(**message), CALL, LIMIT)


def test_a_completion_is_read() -> None:
    reply = completed(content="{}", finish="length")
    assert (reply.text, reply.finish, reply.tokens_in, reply.tokens_out) == ("{}", "length", 5, 2)
    assert completed(content=None).text == ""


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}])
def test_missing_usage_is_estimated(usage: Any) -> None:
    reply = completed(content="äää", usage=usage)
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
    reply = completed(**message)
    fault = read(reply.text, Shape, reply.finish).fault
    assert fault is not None and fault.kind == "refusal"


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"null", b"[]", b"<html>", b'{"choices": []}', b'{"choices": [{}]}', b"\xff\xfe",
        b'{"choices": [{"message": {"content": 3}}]}', b'{"error": {"message": "x"}}', b"[" * 10**5,
        b'{"choices": null}', b'{"choices": [null]}', b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": ""}, "finish_reason": "error"}]}',
    ],
)  # fmt: skip
def test_what_is_no_completion_is_a_passing_fault_of_the_server(bad: bytes) -> None:
    with pytest.raises(protocol.AttemptError) as caught:
        protocol.read_completion(bad, CALL, LIMIT)
    assert caught.value.passing and caught.value.fault.kind == "server"


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(noise: bytes) -> None:
    with pytest.raises(protocol.AttemptError):
        protocol.read_completion(noise, CALL, LIMIT)
    protocol.read_error(500, {}, noise)
    try:
        protocol.read_event(noise)
    except protocol.AttemptError:
        assert noise.strip().startswith((b"data:", b"error:"))


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
        ("7", 7), ("0", 0), ("100", 100), ("86400", 86400), ("-3", 0), ("", 0),
        ("soon", 0), ("nan", 0), ("Thu, 01 Jan 1970 00:16:50 GMT", 10),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 4102443800),
    ],
)  # fmt: skip
def test_retry_after_as_number_and_date(value: str, seconds: float) -> None:
    assert protocol.retry_after(value, now=1000.0) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_a_number(value: str) -> None:
    assert 0 <= protocol.retry_after(value) < math.inf


@given(st.integers(0, 60), st.floats(0, 120), st.floats(0, 1, exclude_max=True))
def test_a_pause_doubles_within_bounds_and_is_never_shorter_than_asked(
    retry: int, asked: float, jitter: float
) -> None:
    step = min(0.5 * 2**retry, 30.0)
    assert asked + step / 2 <= protocol.backoff(retry, asked, jitter) <= asked + step


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (b": comment", Event()),
        (b"", Event()),
        (b"event: x", Event()),
        (b"data: [DONE]\r", Event(last=True)),
        (b'data: {"choices": []}', Event()),
        (b'data: {"choices": null}', Event()),
        (b'data: {"choices": [null]}', Event()),
        (b'data: {"choices": [{"delta": null}]}', Event()),
        (
            b'data: {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}',
            Event(),
        ),  # Azure
        (b'data:{"choices": [{"delta": {"content": "ab"}}]}', Event(Said("ab"))),
        (b'data:{"choices": [{"delta": {"reasoning": "ab"}}]}', Event(Said("", "ab"))),
        (b'data:{"choices": [{"delta": {"reasoning_content": "a"}}]}', Event(Said("", "a"))),
        (
            b'data:{"choices": [{"delta": {"content": [{"type": "thinking", "thinking": '
            b'[{"type": "text", "text": "ab"}]}]}}]}',
            Event(Said("", "ab")),
        ),
        (
            b'data:{"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "a"}}]}}]}',
            Event(Said("a")),
        ),
        (b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}', Event(Said(), "stop")),
        (
            b'data: {"choices": [], "usage": {"prompt_tokens": 5}}',
            Event(usage={"prompt_tokens": 5}),
        ),
    ],
)
def test_a_line_of_a_stream(line: bytes, event: Event) -> None:
    assert protocol.read_event(line) == event


BROKEN = {"content": ""}


@pytest.mark.parametrize(
    "told",
    [
        {"object": "error", "message": "out of memory", "code": 500},  # older vLLM
        {  # OpenRouter
            "error": {"message": "out of memory"},
            "choices": [{"delta": BROKEN, "message": BROKEN, "finish_reason": "error"}],
        },
        {"error": {"message": "out of memory"}, "choices": [{"delta": BROKEN, "message": BROKEN}]},
    ],
)
def test_an_error_beside_choices_or_instead_of_them_keeps_its_message(told: Any) -> None:
    body = json.dumps(told).encode()
    with pytest.raises(protocol.AttemptError, match="out of memory"):
        protocol.read_event(b"data: " + body)
    with pytest.raises(protocol.AttemptError, match="out of memory"):
        protocol.read_completion(body, CALL, LIMIT)


def test_an_answer_beside_an_error_is_kept_since_it_is_paid_for() -> None:
    told = json.loads(response(content=ANSWER)) | {"error": {"message": "late"}}
    reply = protocol.read_completion(json.dumps(told).encode(), CALL, LIMIT)
    assert read(reply.text, Shape).value is not None


def test_an_error_within_a_stream_is_trouble() -> None:
    with pytest.raises(protocol.AttemptError, match="out of memory"):
        protocol.read_event(b'data: {"error": {"message": "out of memory"}}')
    with pytest.raises(protocol.AttemptError, match="out of memory"):
        protocol.read_event(b'error: {"code": 500, "message": "out of memory"}')  # llama.cpp
