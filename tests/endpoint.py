"""A real OpenAI-compatible endpoint on loopback: scripted answers, planned faults, counts.

In a test: `with serve(Endpoint(faults="error=0.1")) as endpoint: ... endpoint.url`. As a process
that outlives its clients: `python -m tests.endpoint --port-file F --latency 1 --slots 64`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.endpoint_faults import BODIES, STATUSES, Planned
from tests.sample_json import answer_by_schema

PIECE_CHARS = 8
WORD = {"content": "word "}


def digest(request: dict[str, Any]) -> str:
    """Name a prompt: messages and sampling, whether or not it is streamed."""
    parts = [request.get(name) for name in ("messages", "temperature", "max_tokens", "seed")]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


@dataclass
class Endpoint:
    """What it answers, how fast, with which faults; and what it has seen.

    It works on `slots` requests at a time, `latency_s` each; the rest wait. `calls` and
    `answered` count by prompt (`digest`): sends that arrived, answers wholly written.
    """

    script: Callable[[dict[str, Any]], str] = answer_by_schema
    latency_s: float = 0.0
    slots: int = 64
    faults: str = ""
    retry_after: str = "1"
    slow_s: float = 5.0
    usage: bool = True
    api_key: str = ""
    bend: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None = None
    """Changes the body of an answer, given the request; one with an error has status 400."""
    lifetime_s: float = 900.0
    hold_after: int = sys.maxsize
    """A gate: calls that arrive after so many are held until it is raised (`POST /hold/<n>`)."""

    url: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    requests: list[dict[str, Any]] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)
    """Headers and query of each kept request."""
    keep_requests: int = 100
    in_flight: int = 0
    held: int = 0
    most_in_flight: int = 0
    cancelled: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    connections: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the plan of faults."""
        self._plan = [Planned.read(text) for text in self.faults.split(",") if text.strip()]
        self._slots = asyncio.Semaphore(self.slots)

    def counts(self) -> dict[str, Any]:
        """All that was counted, as JSON."""
        names = ("most_in_flight", "in_flight", "held", "cancelled", "tokens_in", "tokens_out")
        return {
            "calls": dict(self.calls),
            "answered": dict(self.answered),
            "faults": dict(self.struck),
            "connections": len(self.connections),
            **{name: getattr(self, name) for name in names},
        }

    async def chat(self, http: web.Request) -> web.StreamResponse:
        """Answer one chat completion."""
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.connections.add(http.transport and http.transport.get_extra_info("peername"))
        try:
            request = await http.json()
            name = digest(request)
            self.calls[name] += 1
            arrival = self.calls.total()
            if len(self.requests) < self.keep_requests:
                self.requests.append(request)
                self.sent.append({**http.headers, **http.query})
            sent = self.calls[name]
            await self._pass(arrival)
            struck = next((p.kind for p in self._plan if p.strikes(name, sent, arrival)), "")
            self.struck.update([struck] if struck else [])
            return await self._respond(http, request, struck)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1

    async def _pass(self, arrival: int) -> None:
        """Wait at the gate, if there is one before this call."""
        if arrival <= self.hold_after:
            return
        self.held += 1
        try:
            while arrival > self.hold_after:
                await asyncio.sleep(0.01)
        finally:
            self.held -= 1

    async def _respond(
        self, http: web.Request, request: dict[str, Any], struck: str
    ) -> web.StreamResponse:
        if self.api_key and http.headers.get("Authorization") != f"Bearer {self.api_key}":
            shown = http.headers.get("Authorization", "")
            return web.json_response({"error": {"message": f"bad key: {shown}"}}, status=401)
        if struck in STATUSES:
            status, error = STATUSES[struck]
            wait = {"Retry-After": self.retry_after} if status in (429, 503) else {}
            where = {"Location": "http://127.0.0.1:9/v1"} if status == 307 else {}
            return web.json_response({"error": error}, status=status, headers={**wait, **where})
        async with self._slots:
            await asyncio.sleep(self.latency_s + (self.slow_s if struck == "slow" else 0))
            if struck in BODIES:
                return web.Response(text=BODIES[struck], content_type="text/html")
            if struck == "drop":
                return _cut_off(http, web.StreamResponse())
            if struck == "stall" and not request.get("stream"):
                await asyncio.sleep(self.lifetime_s)
            message, finish = self._message(request, struck)
            body = self._completion(request, message, finish)
            body = self.bend(request, body) if self.bend else body
            if request.get("stream") and "error" not in body:
                return await self._stream(http, request, body, struck)
            response = web.json_response(body, status=400 if "error" in body else 200)
            if struck in ("half_body", "half_stream"):
                whole = response.body
                assert isinstance(whole, bytes)
                half = web.StreamResponse(headers={"Content-Length": str(len(whole))})
                await half.prepare(http)
                await half.write(whole[: len(whole) // 2])
                return _cut_off(http, half)
            await response.prepare(http)
            await response.write_eof()
            self.answered[digest(request)] += 1
            return response

    def _message(self, request: dict[str, Any], struck: str) -> tuple[dict[str, Any], str]:
        text = self.script(request)
        if struck == "refusal":
            return {"role": "assistant", "content": None, "refusal": "I will not do that."}, "stop"
        if struck == "filtered":
            return {"role": "assistant", "content": text[: len(text) // 2]}, "content_filter"
        if struck == "length":
            return {"role": "assistant", "content": text[: len(text) // 2]}, "length"
        changed = {"nonsense": "As follows: " + text[: len(text) // 2], "empty": ""}
        return {"role": "assistant", "content": changed.get(struck, text)}, "stop"

    def _completion(
        self, request: dict[str, Any], message: dict[str, Any], finish: str
    ) -> dict[str, Any]:
        tokens_in = sum(len(turn["content"].encode()) for turn in request["messages"]) // 4
        tokens_out = len((message["content"] or "").encode()) // 4
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        usage = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }
        return {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            **({"usage": usage} if self.usage else {}),
        }

    async def _stream(
        self, http: web.Request, request: dict[str, Any], body: dict[str, Any], struck: str
    ) -> web.StreamResponse:
        (choice,) = body["choices"]
        message = choice["message"]
        text = message["content"] or message.get("refusal") or ""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        await response.write(b": ready\n\n")
        while struck in ("keep_alive", "drip", "endless"):
            await response.write(b": ping\n\n" if struck == "keep_alive" else _event(WORD, None))
            await asyncio.sleep(0 if struck == "endless" else 0.05)
        if thought := message.get("reasoning"):
            await response.write(_event({"reasoning": thought}, None))
        pieces = [text[i : i + PIECE_CHARS] for i in range(0, len(text), PIECE_CHARS)]
        for place, piece in enumerate(pieces):
            if place == len(pieces) // 2 and struck == "half_stream":
                return _cut_off(http, response)
            if place == len(pieces) // 2 and struck == "short_stream":
                await response.write_eof()
                return response
            if place == len(pieces) // 2 and struck == "stall":
                await asyncio.sleep(self.lifetime_s)
            await response.write(_event({"content": piece}, None))
        await response.write(_event({}, choice["finish_reason"]))
        usage = body.get("usage")
        if usage and request.get("stream_options", {}).get("include_usage"):
            await response.write(_data({"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        self.answered[digest(request)] += 1
        return response

    async def report(self, http: web.Request) -> web.Response:
        """The counts, over HTTP."""
        return web.json_response(self.counts())

    async def hold(self, http: web.Request) -> web.Response:
        """Set the gate, over HTTP."""
        self.hold_after = int(http.match_info["after"])
        return web.json_response({})

    @contextlib.asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[Endpoint]:
        """Listen on 127.0.0.1, on a free port unless one is given."""
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/counts", self.report)
        app.router.add_post("/hold/{after}", self.hold)
        # Cancelled when the client goes, as an inference server stops a generation.
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _cut_off(http: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection in the middle."""
    if http.transport is not None:
        http.transport.close()
    return response


@contextlib.contextmanager
def serve(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Run an endpoint on a thread of its own until the block ends."""
    ready, loop, done = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def live() -> None:
        async with endpoint.listening():
            ready.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), endpoint.lifetime_s)

    thread = threading.Thread(target=loop.run_until_complete, args=(live(),), daemon=True)
    thread.start()
    assert ready.wait(100)
    try:
        yield endpoint
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(100)
        loop.close()


async def run(endpoint: Endpoint, port: int, port_file: Path, count_file: Path | None) -> None:
    """Serve until SIGTERM or the end of the lifetime, and keep the counts in a file."""
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    asyncio.get_running_loop().call_later(endpoint.lifetime_s, done.set)
    async with endpoint.listening(port):
        _write(port_file, endpoint.url.split(":")[2].partition("/")[0])
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 0.5)
            if count_file is not None:
                _write(count_file, json.dumps(endpoint.counts()))


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)


def _script(name: str) -> Callable[[dict[str, Any]], str]:
    """How it answers: by any schema, or as the steps' rules do, with slips or without."""
    if name == "schema":
        return answer_by_schema
    from tests.endpoint_script import answer_by_rules, answer_with_more_slips, answer_with_slips

    return {
        "rules": answer_by_rules, "slips": answer_with_slips, "more_slips": answer_with_more_slips,
    }[name]  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run as a process: the port lies in --port-file as soon as it listens."""
    parser = argparse.ArgumentParser(prog="python -m tests.endpoint")
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--count-file", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--script", choices=("schema", "rules", "slips", "more_slips"), default="schema"
    )
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--faults", default="")
    parser.add_argument("--retry-after", default="1")
    parser.add_argument("--slow", type=float, default=5.0)
    parser.add_argument("--lifetime", type=float, default=900.0)
    options = parser.parse_args(argv)
    endpoint = Endpoint(
        script=_script(options.script),
        latency_s=options.latency,
        slots=options.slots,
        faults=options.faults,
        retry_after=options.retry_after,
        slow_s=options.slow,
        lifetime_s=options.lifetime,
    )
    asyncio.run(run(endpoint, options.port, options.port_file, options.count_file))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
