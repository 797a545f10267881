"""A session against a real endpoint that fails in every way it can."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import time
import warnings
from collections.abc import Callable
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from srrag.engine.base import Reply, Session, StreamingSession, listening
from srrag.engine.dispatcher import Dispatchers
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.openai import protocol, session
from srrag.engine.openai.session import proxy_for
from srrag.llm.completion import Account, EngineStopped, Fault
from srrag.llm.read_answer import LoopWatch, read
from tests.endpoint import Endpoint, serve
from tests.endpoint_process import started
from tests.unit.engine.asking import Shape, call, engine_at, replies, reply, within

REPOSITORY = Path(__file__).resolve().parents[4]
T = TypeVar("T")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back off by hundredths of a second."""
    monkeypatch.setattr(protocol, "BACKOFF_S", 0.02)
    monkeypatch.setattr(protocol, "MAX_BACKOFF_S", 0.1)


async def listen(session: Session, pieces: list[str]) -> Reply:
    assert isinstance(session, StreamingSession)
    async for piece in session.stream(call()):
        if isinstance(piece, Reply):
            return piece
        pieces.append(piece)
    raise AssertionError("no reply")


def heard(faults: str, **fields: Any) -> tuple[Reply, list[str], Endpoint]:
    """The reply of a stream from an endpoint with these faults, its pieces, and the endpoint."""
    pieces: list[str] = []
    with serve(Endpoint(faults=faults)) as endpoint:
        last = within(engine_at(endpoint.url, **fields), lambda session: listen(session, pieces))
    return last, pieces, endpoint


@pytest.mark.parametrize("structured", ["json_schema", "json_object", "none"])
def test_an_answer_fits_its_schema(structured: str) -> None:
    with serve(Endpoint()) as endpoint:
        answer = reply(engine_at(endpoint.url, structured=structured))
    assert read(answer.text, Shape).fault is None
    assert (answer.tokens_in, answer.tokens_out) == (endpoint.tokens_in, endpoint.tokens_out)
    assert answer.retries == 0 and answer.seconds > 0


def test_calls_share_as_many_connections_as_may_be_in_flight() -> None:
    with serve(Endpoint(latency_s=0.02, slots=8)) as endpoint:
        answers = replies(engine_at(endpoint.url, concurrency=8), 100)
    assert all(answer.fault is None for answer in answers)
    assert endpoint.most_in_flight == 8
    assert len(endpoint.connections) == 8
    assert set(endpoint.calls.values()) == {1} == set(endpoint.answered.values())


@pytest.mark.parametrize(
    "kind",
    ["error", "busy", "drop", "garbage", "half_json", "half_body", "no_choices", "huge"],
)
def test_what_may_pass_is_tried_again(kind: str) -> None:
    with serve(Endpoint(faults=f"{kind}#2", retry_after="0")) as endpoint:
        answer = reply(engine_at(endpoint.url))
    assert answer.fault is None and read(answer.text, Shape).fault is None
    assert answer.retries == 2 and endpoint.calls.total() == 3


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("error", "server"), ("rate_limit", "server"), ("garbage", "server"), ("huge", "server"),
        ("half_body", "server"), ("drop", "connection"), ("stall", "timeout"),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_a_fault_after_a_bounded_number_of_tries(
    kind: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MOST_TIMES", 99)  # it is the number that ends it, not the time
    with serve(Endpoint(faults=f"{kind}@1-", retry_after="0")) as endpoint:
        limit_s = 1.0 if kind == "stall" else 20.0
        answer = reply(engine_at(endpoint.url, max_retries=2, timeout_s=limit_s))
    assert answer.fault is not None and answer.fault.kind == fault
    assert "\n" not in answer.fault.detail and answer.fault.detail
    assert answer.retries == 2 and endpoint.calls.total() == 3
    assert (answer.text, answer.tokens_out) == ("", 0)


@pytest.mark.parametrize(
    ("kind", "fault"), [("too_long", "too_long"), ("bad_request", "refused_call")]
)
def test_a_refused_call_is_not_tried_again_and_touches_no_other(kind: str, fault: str) -> None:
    with serve(Endpoint(faults=f"{kind}@2")) as endpoint:
        answers = replies(engine_at(endpoint.url, concurrency=1), 4)
    assert [a.fault.kind for a in answers if a.fault] == [fault]
    assert endpoint.calls.total() == 4


def test_poisoned_calls_among_good_ones_do_not_open_the_circuit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "FAILURES", 1)
    monkeypatch.setattr(session, "GRACE_S", 0.0)
    with serve(Endpoint(faults="bad_request=0.9")) as endpoint:
        answers = replies(engine_at(endpoint.url), 40)
    assert 0 < sum(a.fault is None for a in answers) < 40


@pytest.mark.parametrize("kind", ["nonsense", "empty", "refusal", "filtered", "length"])
def test_a_bad_answer_is_an_answer_and_its_judge_finds_the_fault(kind: str) -> None:
    expected = {"nonsense": "invalid_json", "filtered": "refusal", "length": "truncated"}
    with serve(Endpoint(faults=f"{kind}@1-")) as endpoint:
        answer = reply(engine_at(endpoint.url))
    assert answer.fault is None and endpoint.calls.total() == 1
    fault = read(answer.text, Shape, answer.finish).fault
    assert fault is not None and fault.kind == expected.get(kind, kind)


def test_retry_after_is_honoured() -> None:
    with serve(Endpoint(faults="rate_limit#1", retry_after="2")) as endpoint:
        answer = reply(engine_at(endpoint.url))
    assert answer.fault is None and answer.retries == 1
    assert 2.0 <= answer.seconds < 60


def test_the_key_is_sent_but_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("ENDPOINT_KEY", key)
    caplog.set_level(logging.DEBUG)

    async def scene(session: Session) -> str:
        with pytest.raises(EngineStopped) as caught:
            await session.complete(call())
        chain: BaseException | None = caught.value
        shown = repr(session)
        while chain is not None:
            shown += f"{chain!r} {chain} {chain.args}"
            chain = chain.__cause__ or chain.__context__
        return shown

    with serve(Endpoint(api_key=key)) as endpoint:
        engine = engine_at(endpoint.url, api_key_env="ENDPOINT_KEY")
        assert reply(engine).fault is None
        monkeypatch.setenv("ENDPOINT_KEY", key + "-old")
        shown = within(engine, scene)
    assert "the key is refused (HTTP 401: bad key: Bearer ***)" in shown
    assert key not in shown + repr(engine) + caplog.text


@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_gives_the_same_text_in_pieces_and_then_the_same_reply(usage: bool) -> None:
    pieces: list[str] = []
    with serve(Endpoint(usage=usage)) as endpoint:
        engine = engine_at(endpoint.url)
        last = within(engine, lambda session: listen(session, pieces))
        whole = reply(engine)
    assert len(pieces) > 3 and "".join(pieces) == whole.text
    assert endpoint.requests[0]["stream"] is True
    assert replace(last, seconds=0.0) == replace(whole, seconds=0.0)


@pytest.mark.parametrize("fault", ["length", "filtered", "refusal"])
def test_a_stream_ends_as_the_answer_does(fault: str) -> None:
    with serve(Endpoint(faults=f"{fault}@1-")) as endpoint:
        engine = engine_at(endpoint.url)
        last = within(engine, lambda session: listen(session, []))
        whole = reply(engine)
    assert (last.text, last.finish) == (whole.text, whole.finish)


def test_a_stream_counts_what_it_tried_before() -> None:
    last, _, _ = heard("error@1,drop@2")
    assert last.retries == 2 and last.seconds > 0


def test_a_stream_is_tried_again_before_its_first_piece_only() -> None:
    last, pieces, endpoint = heard("error@1,drop@2,half_stream@3-")
    assert last.fault is not None and last.fault.kind in ("connection", "server")
    assert pieces and endpoint.calls.total() == 3


def test_a_stream_that_ends_too_soon_is_no_answer() -> None:
    last, pieces, endpoint = heard("short_stream@1-")
    assert last.fault is not None and "before the answer" in last.fault.detail
    assert pieces and endpoint.answered.total() == 0


def test_a_stream_that_stalls_breaks_off() -> None:
    started = time.monotonic()
    last, pieces, endpoint = heard("stall@1-", timeout_s=2.0)
    assert last.fault is not None and last.fault.kind == "timeout" and pieces
    assert endpoint.calls.total() == 1 and time.monotonic() - started < 60


@pytest.mark.parametrize("kind", ["keep_alive", "drip"])
def test_a_stream_that_goes_on_ends_with_the_time_of_an_attempt(kind: str) -> None:
    started = time.monotonic()
    kept, pieces, _ = heard(f"{kind}@1-", timeout_s=3.0, max_retries=0)
    assert time.monotonic() - started < 60
    assert kept.fault == Fault("timeout", "no whole answer in engine.timeout_s=3")
    assert kept.text == "".join(pieces) and bool(pieces) == (kind == "drip")
    assert kept.tokens_out == protocol.estimate_tokens(kept.text), "it was paid for"


def test_a_call_whose_attempts_all_hang_has_an_end() -> None:
    began = time.monotonic()
    last, _, endpoint = heard("keep_alive@1-", timeout_s=0.5, max_retries=50)
    assert last.fault is not None and last.fault.kind == "timeout" and time.monotonic() - began < 60
    assert 1 <= endpoint.calls.total() <= 4


def test_a_stream_longer_than_its_limit_is_cut_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopWatch, "loops", lambda *_: False)
    answer, _, _ = heard("endless@1-", timeout_s=60.0)
    limit = call().prompt.max_tokens
    assert answer.finish in ("length", "looped") and answer.fault is None
    assert limit <= answer.tokens_out <= limit * protocol.MAX_TOKEN_BYTES


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to hold within 60 s")


def test_a_cancelled_call_or_stream_closes_its_connection() -> None:
    with serve(Endpoint(latency_s=20.0)) as endpoint:

        async def cancelled(session: Session) -> None:
            task = asyncio.ensure_future(session.complete(call()))
            await until(lambda: endpoint.in_flight == 1)
            task.cancel()
            await until(lambda: endpoint.cancelled == 1 and endpoint.in_flight == 0)

        within(engine_at(endpoint.url, timeout_s=60.0), cancelled)
    with serve(Endpoint(faults="stall@1-")) as endpoint:

        async def abandoned(session: Session) -> None:
            assert isinstance(session, StreamingSession)
            async with aclosing(session.stream(call())) as pieces:
                async for _ in pieces:
                    break
            await until(lambda: endpoint.in_flight == 0)

        within(engine_at(endpoint.url), abandoned)


def test_a_closed_session_leaves_no_connection_and_answers_no_call() -> None:
    async def scene(url: str) -> None:
        session = await engine_at(url).open()
        await session.complete(call())
        await session.close()
        with pytest.raises(EngineStopped, match="closed"):
            await session.complete(call())

    gc.collect()  # what tests before this one left is not this one's
    with serve(Endpoint()) as endpoint, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(scene(endpoint.url))
        gc.collect()
    assert not [str(w.message) for w in caught if w.category is ResourceWarning]


def test_loopback_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = "http://127.0.0.1:9"
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, dead)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, ".inside.example")
    for host in ("127.0.0.1", "localhost", "[::1]", "127.8.9.1"):
        assert proxy_for(f"http://{host}:8000/v1") is None
    assert proxy_for("https://api.example.org/v1") == dead
    assert proxy_for("https://llm.inside.example/v1") is None
    with serve(Endpoint()) as endpoint:
        assert reply(engine_at(endpoint.url)).fault is None


def test_the_endpoint_outlives_its_client_and_keeps_count(tmp_path: Path) -> None:
    with started(tmp_path, "--faults", "error#1") as (process, url):
        answers = replies(engine_at(url), 5)
        assert process.poll() is None
    assert [a.retries for a in answers] == [1] * 5
    seen = json.loads((tmp_path / "counts").read_text())
    assert sorted(seen["calls"].values()) == [2] * 5
    assert sorted(seen["answered"].values()) == [1] * 5
    assert seen["tokens_out"] == sum(a.tokens_out for a in answers)


def test_aiohttp_errors_that_hold_headers_never_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is no HTTP makes aiohttp raise an error with the request's headers."""
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("ENDPOINT_KEY", key)

    async def scene() -> Reply:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/9.9 banana\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        engine = engine_at(f"http://127.0.0.1:{port}/v1", api_key_env="ENDPOINT_KEY", max_retries=0)
        session = await engine.open()
        answer = await session.complete(call())
        await session.close()
        server.close()
        return answer

    answer = asyncio.run(scene())
    assert answer.fault is not None and answer.fault.kind == "connection"
    assert key not in repr(answer) and aiohttp.ClientResponseError.__name__ in answer.fault.detail


@pytest.mark.parametrize("spelling", ["sk/a b%2B&c", "sk/a%20b%252B%26c", "sk%2fa+b%252B%26c"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_secret_is_hidden_however_it_is_quoted_and_wherever_the_message_is_cut(
    spelling: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("URL_KEY", "sk/a b%2B&c")
    room = protocol.DETAIL_CHARS - len("the stream failed: " if streamed else "HTTP 400: ")
    told = json.dumps({"error": {"message": f"{'x' * (room - 5)} {spelling}"}})
    body = f"data: {told}\n\n" if streamed else told
    status = "200 OK" if streamed else "400 Bad Request"

    async def scene() -> Fault | None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write((head + body).encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        engine = engine_at(f"http://127.0.0.1:{port}/v1", query="key=$URL_KEY", max_retries=0)
        session = await engine.open()
        try:
            found = await (listen(session, []) if streamed else session.complete(call()))
        finally:
            await session.close()
            server.close()
        return found.fault

    fault = asyncio.run(scene())
    assert fault is not None and fault.detail.endswith("x ***") and "sk" not in fault.detail


def fixed(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Refuse what OpenAI's models that think refuse."""
    if "max_tokens" in request:
        return {"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with "
                          "this model. Use 'max_completion_tokens' instead."}}  # fmt: skip
    if request.get("temperature", 1) != 1:
        return {"error": {"message": "Unsupported value: 'temperature' does not support 0 with "
                          "this model. Only the default (1) value is supported."}}  # fmt: skip
    return body


def test_what_an_endpoint_refuses_is_learned_once_and_told() -> None:
    async def in_turn(session: Session) -> list[Reply]:
        return [await session.complete(call(n)) for n in range(5)]

    with serve(Endpoint(bend=fixed)) as endpoint:
        answers = within(engine_at(endpoint.url, thinking=500), in_turn)
    assert all(answer.fault is None and answer.retries == 0 for answer in answers)
    assert endpoint.calls.total() == 5 + 2
    last = endpoint.requests[-1]
    assert last["max_completion_tokens"] == call().prompt.max_tokens + 500
    assert not {"max_tokens", "temperature"} & last.keys()
    assert answers[-1].note == "it takes no temperature, and uses its own"


def test_calls_in_flight_learn_from_each_other() -> None:
    with serve(Endpoint(bend=fixed, latency_s=0.05)) as endpoint:
        answers = replies(engine_at(endpoint.url), 20)
    assert all(answer.fault is None for answer in answers)
    assert endpoint.calls.total() <= 3 * 20


def test_an_endpoint_that_refuses_for_ever_is_asked_a_bounded_number_of_times() -> None:
    told = {"error": {"message": "temperature, seed and stream_options are not supported"}}
    with serve(Endpoint(bend=lambda request, body: told)) as endpoint:
        answer = reply(engine_at(endpoint.url))
    assert answer.fault is not None and "seed and stream_options" in answer.fault.detail
    assert endpoint.calls.total() == 4


def test_headers_and_query_are_sent_and_their_secrets_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_KEY", "s3cret-of-azure")
    monkeypatch.setenv("URL_KEY", "s3cret&url")
    told: dict[str, Any] = {"error": {"message": "no s3cret-of-azure here"}}
    with serve(Endpoint(bend=lambda request, body: told)) as endpoint:
        engine = engine_at(
            endpoint.url,
            headers=("api-key: $AZURE_KEY", "X-Title: a study"),
            query="api-version=2024-10-21&key=$URL_KEY",
        )
        answer = reply(engine)
    sent = endpoint.sent[0]
    assert (sent["api-key"], sent["X-Title"]) == ("s3cret-of-azure", "a study")
    assert (sent["api-version"], sent["key"]) == ("2024-10-21", "s3cret&url")
    assert "Authorization" not in sent
    assert answer.fault is not None and answer.fault.detail == "HTTP 400: no *** here"
    assert "s3cret" not in repr(engine) + repr(answer)


def test_a_model_that_thinks_has_room_for_it_and_the_answer_is_found() -> None:
    def thinks(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        body["choices"][0]["message"]["reasoning_content"] = "It helps, {so}."
        return body

    with serve(Endpoint(bend=thinks)) as endpoint:
        answer = reply(engine_at(endpoint.url, thinking=300))
    assert endpoint.requests[0]["max_tokens"] == call().prompt.max_tokens + 300
    assert answer.text.startswith("<think>It helps, {so}.</think>")
    assert read(answer.text, Shape).fault is None


def test_a_stream_that_loops_is_left_and_keeps_its_first_copy() -> None:
    item = '{"name":"the same object of a small model, again and again","n":1}'
    with serve(Endpoint(script=lambda request: '{"items":[' + ",".join([item] * 300))) as endpoint:
        pieces: list[str] = []
        answer = within(engine_at(endpoint.url), lambda session: listen(session, pieces))
    assert answer.finish == "looped"
    assert answer.text.count(item) <= 2
    heard = "".join(pieces)
    assert len(answer.text) < len(heard) < 60 * len(item)
    assert answer.tokens_out > len(answer.text) // 8, "what was thrown away was paid for"


CEILING = 6_000
USAGES = {
    "as it was": lambda told: told,
    "missing": lambda told: None,
    "zero": lambda told: {"prompt_tokens": 0, "completion_tokens": 0},
    "negative": lambda told: {"prompt_tokens": -(10**6), "completion_tokens": -(10**6)},
    "fractional, a third": lambda told: {k: v / 3 for k, v in told.items()},
    "absurd": lambda told: {"prompt_tokens": 10**30, "completion_tokens": 5 * 10**5},
    "no number": lambda told: {"prompt_tokens": "many", "completion_tokens": True},
}


@pytest.mark.parametrize("kind", [*USAGES, "a stream without an end"])
def test_a_ceiling_counts_at_least_what_was_sent(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-s` prints what was told, what the ceiling counted and what was sent, in tokens."""
    told: list[Any] = []

    def bent(request: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        told.append(USAGES[kind](body["usage"]))
        return body | {"usage": told[-1]}

    endless = kind not in USAGES
    given = Endpoint(faults="endless@1-") if endless else Endpoint(bend=bent)
    monkeypatch.setattr(LoopWatch, "loops", lambda *_: False)
    with serve(given) as endpoint:
        structured = "none" if kind == "missing" else "json_schema"  # the schema is in the prompt
        engine = engine_at(endpoint.url, concurrency=2, timeout_s=60.0, structured=structured)

        async def asked() -> None:
            account = Account(max_tokens=CEILING)
            made = Dispatchers({engine: engine.open}, tmp_path, account)
            hear = listening(lambda text: None, Shape) if endless else nullcontext()
            try:
                with hear:
                    for number in range(400):
                        await made.complete(engine, [call(number)])
            finally:
                await made.close()

        with pytest.raises(EngineStopped, match=f"budget.max_tokens={CEILING}"):
            asyncio.run(asked())
    spent = CompletionLog(tmp_path).totals()
    counted, calls = spent.tokens_in + spent.tokens_out, endpoint.calls.total()
    sent = endpoint.tokens_in + endpoint.tokens_out
    print(f"\n{kind}: {calls} calls, told {told[:1]}, counted {counted}, sent {sent}")
    assert calls < 400
    if kind == "absurd":  # no more than a prompt and an answer with hidden thinking can hold
        assert counted >= sent and counted / calls < 1.1 * protocol.HIDDEN_TOKENS
        return
    assert counted <= CEILING
    if not endless:
        assert counted >= sent, "what is not believed is estimated from all that was sent"


@pytest.mark.parametrize("kind", ["forbidden", "unknown_model", "moved", "quota"])
def test_what_would_fail_every_call_ends_the_run_at_once(kind: str) -> None:
    with serve(Endpoint(faults=f"{kind}@1-")) as endpoint, pytest.raises(EngineStopped) as caught:
        replies(engine_at(endpoint.url, concurrency=2), 50)
    assert endpoint.url in str(caught.value) and "\n" not in str(caught.value)
    assert endpoint.calls.total() <= 4


@pytest.mark.parametrize("kind", ["rate_limit", "busy"])
def test_an_endpoint_that_asks_to_wait_a_day_ends_the_run_at_once(kind: str) -> None:
    late = pytest.raises(EngineStopped, match=r"asks to wait 86400 s \(HTTP (429|503): ")
    with serve(Endpoint(faults=f"{kind}@1-", retry_after="86400")) as endpoint, late:
        replies(engine_at(endpoint.url, concurrency=2), 50)
    assert endpoint.calls.total() <= 4


def test_answers_on_their_way_are_kept_when_the_key_expires() -> None:
    async def scene(session: Session) -> list[Any]:
        slow = asyncio.ensure_future(session.complete(call(1)))
        await until(lambda: endpoint.calls.total() == 1)
        return await asyncio.gather(slow, session.complete(call(2)), return_exceptions=True)

    with serve(Endpoint(faults="forbidden@2", latency_s=0.5)) as endpoint:
        first, second = within(engine_at(endpoint.url), scene)
    assert isinstance(first, Reply) and first.fault is None
    assert isinstance(second, EngineStopped)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("num", [1, 64])
def test_an_endpoint_that_is_not_there_ends_the_run_soon(
    num: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.1)
    url = f"http://127.0.0.1:{closed_port()}/v1"
    begun = time.monotonic()
    with pytest.raises(EngineStopped) as caught:
        replies(engine_at(url), num)
    assert time.monotonic() - begun < 60
    assert url in str(caught.value) and "Connection refused" in str(caught.value)
    assert "failures in a row" in str(caught.value) and "\n" not in str(caught.value)


def test_an_endpoint_that_dies_ends_every_call_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 1.0)

    async def scene(session: Session) -> list[Any]:
        tasks = [asyncio.ensure_future(session.complete(call(n))) for n in range(64)]
        await asyncio.sleep(0.5)
        process.kill()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with started(tmp_path, "--latency", "150") as (process, url):
        begun = time.monotonic()
        results = within(engine_at(url, timeout_s=200.0), scene)
    assert time.monotonic() - begun < 100
    assert len({str(result) for result in results}) == 1
    assert all(isinstance(result, EngineStopped) for result in results)


def test_an_endpoint_that_hangs_frees_the_calls_that_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.0)

    async def scene(session: Session) -> list[Any]:
        waiting = [asyncio.ensure_future(session.complete(call(n))) for n in range(4)]
        await until(lambda: endpoint.calls.total() == 4)
        failing = [session.complete(call(n)) for n in range(10, 20)]
        return await asyncio.gather(*waiting, *failing, return_exceptions=True)

    begun = time.monotonic()
    with serve(Endpoint(faults="stall@1-4,error@5-")) as endpoint:
        engine = engine_at(endpoint.url, timeout_s=200.0, max_retries=1)
        results = within(engine, scene)
    assert time.monotonic() - begun < 100
    assert all(isinstance(result, EngineStopped) for result in results[:4])


def test_a_short_outage_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_BACKOFF_S", 0.5)
    monkeypatch.setattr(session, "GRACE_S", 20.0)
    port = closed_port()

    async def scene(session: Session) -> list[Reply]:
        tasks = [asyncio.ensure_future(session.complete(call(n))) for n in range(16)]
        await asyncio.sleep(0.7)
        async with Endpoint().listening(port):
            return await asyncio.gather(*tasks)

    engine = engine_at(f"http://127.0.0.1:{port}/v1", max_retries=1)
    assert all(r.fault is None and r.retries for r in within(engine, scene))
