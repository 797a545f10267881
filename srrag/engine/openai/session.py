"""A session with an OpenAI-compatible endpoint: connections, retries and the circuit breaker."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import time
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp

from srrag.engine.base import Call, Reply, reply_of
from srrag.engine.openai import protocol
from srrag.engine.openai.engine import Dialect, HttpEngine
from srrag.engine.openai.protocol import AttemptError
from srrag.llm.completion import EngineStopped, Fault
from srrag.llm.read_answer import LoopWatch

FAILURES = 5
"""Failures in a row that open the circuit."""
GRACE_S = 3.0
"""Seconds for which a series of failures may be a restart, so the circuit stays closed."""


class CircuitBreaker:
    """Counts consecutive failures, and opens once: then every call ends with the same error.

    A failure is a call that failed after all its retries, or a refused connection. So the circuit
    detects a dead endpoint before any call has used up its retries.
    """

    def __init__(self, endpoint: str, limit: int, grace_s: float) -> None:
        """Bind the endpoint, the failures that open the circuit, and their least duration."""
        self._endpoint = endpoint
        self._limit = limit
        self._grace_s = grace_s
        self._failures = 0
        self._since = 0.0
        self._lived = 0.0
        self._opened = asyncio.Event()
        self._reason = ""

    def succeeded(self) -> None:
        """Note a sign of life, which ends a series of failures."""
        self._failures = 0
        self._lived = time.monotonic()

    def failed(self, error: str, started: float) -> bool:
        """Note a failure of a call begun at `started` (`time.monotonic`); True if it opens this."""
        if self._failures == 0:
            self._since = max(started, self._lived)
        self._failures += 1
        lasted = time.monotonic() - self._since
        if self._opened.is_set() or self._failures < self._limit or lasted < self._grace_s:
            return False
        self.open(f"gone: {self._failures} failures in a row in {lasted:.0f} s, last: {error}")
        return True

    def open(self, reason: str) -> None:
        """Open the circuit with a reason; if it is open already, keep the first reason."""
        if not self._opened.is_set():
            self._reason = f"endpoint {self._endpoint}: {reason}"
            self._opened.set()

    def check(self) -> None:
        """Raise EngineStopped with the reason if the circuit is open."""
        if self._opened.is_set():
            raise EngineStopped(self._reason)

    async def pause(self, seconds: float) -> None:
        """Sleep; raises EngineStopped as soon as the circuit opens."""
        try:
            await asyncio.wait_for(self._opened.wait(), seconds)
        except TimeoutError:
            return
        self.check()


Attempt = Callable[[Call, Dialect], AsyncGenerator[str | Reply]]
"""Asks once, and yields pieces and the reply; raises AttemptError."""

CONNECT_S = 10.0
MOST_TIMES = 3
"""Times `timeout_s` after which a call gets no further attempt."""


def proxy_for(base_url: str) -> str | None:
    """The proxy that the environment names for this host, or None; always None for loopback.

    aiohttp's `trust_env` would also use passwords from ~/.netrc instead of the API key.
    """
    url = urlsplit(base_url)
    host = url.hostname or ""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost" or host.endswith(".localhost")
    if loopback or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(url.scheme)


class HttpSession:
    """A pool of at most `concurrency` connections to one endpoint."""

    def __init__(self, engine: HttpEngine) -> None:
        """Bind to the running event loop; raises EngineStopped if an API key is unset."""
        self._engine = engine
        self._address = engine.address()
        self._dialect = engine.dialect
        self._breaker = CircuitBreaker(engine.base_url, FAILURES, GRACE_S)
        self._jitter = random.Random()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=engine.concurrency, ttl_dns_cache=300),
            headers={"Content-Type": "application/json", **self._address.headers},
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_for(engine.base_url),
        )
        self._timeout = aiohttp.ClientTimeout(
            total=engine.timeout_s, sock_connect=min(CONNECT_S, engine.timeout_s)
        )

    async def close(self) -> None:
        """Close the connections; calls in flight end with EngineStopped."""
        self._breaker.open("the session was closed")
        await self._http.close()

    async def complete(self, call: Call) -> Reply:
        """Answer one call, with retries while they may help.

        A call that fails for good returns a Reply with its fault. Raises EngineStopped if every
        other call would fail likewise, or the endpoint is gone.
        """
        return await reply_of(self._tries(call, self._whole))

    def stream(self, call: Call) -> AsyncGenerator[str | Reply]:
        """Yield the pieces of an answer, then the reply; retries only before the first piece.

        Of an answer that breaks off or stalls, the reply has the fault. Raises EngineStopped as
        `complete` does.
        """
        return self._tries(call, self._pieces)

    async def _tries(self, call: Call, attempt: Attempt) -> AsyncGenerator[str | Reply]:
        started = time.monotonic()
        retries, begun = 0, False
        while True:
            dialect = self._dialect
            try:
                async with aclosing(attempt(call, dialect)) as pieces:
                    async for piece in pieces:
                        begun = True
                        if isinstance(piece, str):
                            yield piece
                        else:
                            yield self._timed(piece, retries, started)
                return
            except AttemptError as failed:
                trouble = failed
            if self._learns(trouble, dialect):
                continue
            spent = self._engine.max_retries if begun or trouble.reply else retries
            fault = await self._settle(trouble, spent, started)
            if fault is not None:
                yield self._timed(replace(trouble.reply or Reply(), fault=fault), retries, started)
                return
            retries += 1

    def _learns(self, trouble: AttemptError, used: Dialect) -> bool:
        """Whether the endpoint refused a field that it need not get, so that it is asked anew."""
        if trouble.fault.kind != "refused_call" or trouble.hopeless:
            return False
        learned = used.without(trouble.fault.detail)
        if learned is not None:
            self._breaker.succeeded()
            self._dialect = replace(learned, refused=learned.refused | self._dialect.refused)
        return learned is not None

    def _timed(self, reply: Reply, retries: int, started: float) -> Reply:
        """Complete a reply with its retries and seconds, and what the endpoint would not take."""
        own = sorted(self._dialect.refused & {"temperature", "seed"})
        note = reply.note or (own and f"it takes no {' and no '.join(own)}, and uses its own") or ""
        seconds = time.monotonic() - started
        return replace(reply, retries=retries, seconds=seconds, note=note)

    async def _settle(self, trouble: AttemptError, retries: int, started: float) -> Fault | None:
        """Wait before the next attempt, or return the fault that ends the call.

        Raises EngineStopped if the failure ends the run.
        """
        fault = trouble.fault
        # Retry refused connections until one succeeds or the circuit opens: an outage then ends
        # the run, which can be resumed, instead of failing rows.
        late = time.monotonic() - started >= MOST_TIMES * self._engine.timeout_s
        spent = (late or retries >= self._engine.max_retries) and not trouble.refused
        ends = spent or not trouble.passing
        if trouble.hopeless:
            self._breaker.open(fault.detail)  # let answers in flight arrive: they are paid for
        elif not trouble.passing:
            self._breaker.succeeded()
        elif (trouble.refused or ends) and self._breaker.failed(fault.detail, started):
            await self.close()  # end all calls, whose answers would never arrive
        self._breaker.check()
        if ends:
            return fault
        await self._breaker.pause(protocol.backoff(retries, trouble.wait_s, self._jitter.random()))
        return None

    async def _whole(self, call: Call, dialect: Dialect) -> AsyncGenerator[str | Reply]:
        """Yield the reply alone; raises AttemptError."""
        async with self._sent(dialect.request(call)) as response:
            body = await self._read(response)
        reply = protocol.read_completion(
            body, call, dialect.limit(call.prompt), dialect.added(call.prompt)
        )
        self._breaker.succeeded()
        yield reply

    async def _pieces(self, call: Call, dialect: Dialect) -> AsyncGenerator[str | Reply]:
        """Yield the pieces of an answer, then the reply.

        Raises AttemptError, with what had come of the answer. Closing the connection ends an answer
        that loops, or is longer than it can be.
        """
        limit = dialect.limit(call.prompt)
        room = limit * protocol.MAX_TOKEN_BYTES
        said: list[protocol.Said] = []
        finish, usage, last = "", None, False
        watch = LoopWatch()

        def reply() -> Reply:
            whole = protocol.Said(*("".join(kinds) for kinds in zip(*said, strict=True)))
            return protocol.as_reply(call, whole, finish, usage, limit, dialect.added(call.prompt))

        try:
            async with self._sent(dialect.request(call, stream=True)) as response:
                async for line in self._lines(response):
                    event = protocol.read_event(line)
                    finish, usage = event.finish or finish, event.usage or usage
                    if any(event.said):
                        said.append(event.said)
                        room -= sum(map(len, event.said))
                        if event.said.text:
                            yield event.said.text
                        if watch.loops("".join(event.said)) or room < 0:
                            finish = "looped" if room >= 0 else "length"
                            break
                    if last := event.last:
                        break
            if not (finish or last):
                raise AttemptError("connection", "the stream ended before the answer was complete")
        except AttemptError as error:
            # After the finish reason only the token count is missing: keep the answer.
            if not finish:
                error.reply = reply() if said else None
                raise
        self._breaker.succeeded()
        yield reply()

    @asynccontextmanager
    async def _sent(self, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; turn every error until the block ends into AttemptError.

        It passes on no error of aiohttp, since these contain the request's headers and so the key.
        """
        self._breaker.check()
        try:
            async with self._http.post(
                self._address.url, data=body, timeout=self._timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    told = response.headers.copy()
                    told["Location"] = self._address.hide(told.get("Location", ""))
                    raise protocol.read_error(response.status, told, await self._read(response))
                yield response
        except aiohttp.ConnectionTimeoutError:
            raise AttemptError("timeout", "no connection in time", refused=True) from None
        except TimeoutError:
            late = f"no whole answer in engine.timeout_s={self._engine.timeout_s:g}"
            raise AttemptError("timeout", late) from None
        except aiohttp.ClientConnectorError as error:
            raise AttemptError("connection", _reason(error.os_error), refused=True) from None
        except aiohttp.ClientPayloadError:
            raise AttemptError("server", "the response broke off in its body") from None
        except (aiohttp.ClientError, OSError) as error:
            raise AttemptError("connection", self._address.hide(_reason(error))) from None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for block in response.content.iter_any():
            body += block
            if len(body) > protocol.MAX_BODY_BYTES:
                raise AttemptError(
                    "server", f"the response is over {protocol.MAX_BODY_BYTES} bytes"
                )
        return self._hidden(body)

    async def _lines(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        size, rest = 0, b""
        async for block in response.content.iter_any():
            if (size := size + len(block)) > protocol.MAX_BODY_BYTES:
                raise AttemptError("server", f"the stream is over {protocol.MAX_BODY_BYTES} bytes")
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield self._hidden(line)
        yield self._hidden(rest)

    def _hidden(self, body: bytes | bytearray) -> bytes:
        """Replace the secrets, which are ASCII, in bytes of any kind."""
        return self._address.hide(body.decode("latin-1")).encode("latin-1")


def _reason(error: Exception) -> str:
    """Describe an error in one line, without its request."""
    if isinstance(error, OSError) and error.strerror:
        # aiohttp's text repeats the address; a resolver's error numbers are below 0.
        return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    return f"{type(error).__name__}: {error}"
