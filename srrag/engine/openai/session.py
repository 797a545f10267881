"""A session with an OpenAI-compatible endpoint: connections, retries and the circuit breaker."""

from __future__ import annotations

import ipaddress
import os
import random
import time
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp

from srrag.engine.call import Call, CallError, Reply
from srrag.engine.openai import protocol
from srrag.engine.openai.circuit_breaker import CircuitBreaker
from srrag.engine.openai.engine import HttpEngine
from srrag.engine.openai.protocol import AttemptError
from srrag.llm.completion import Fault
from srrag.llm.loops import LoopWatch

CONNECT_S = 10.0


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
        """Bind to the running event loop; raises EngineStopped if the API key is unset."""
        self._engine = engine
        self._key = engine.key()
        self._url = engine.base_url.rstrip("/") + "/chat/completions"
        self._dialect = protocol.dialect(engine)
        self._breaker = CircuitBreaker(
            engine.base_url, engine.breaker_failures, grace_s=engine.breaker_grace_s
        )
        self._jitter = random.Random()
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=engine.concurrency, ttl_dns_cache=300),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_for(engine.base_url),
        )
        connect_s = min(CONNECT_S, engine.timeout_s)
        self._whole = aiohttp.ClientTimeout(total=engine.timeout_s, sock_connect=connect_s)
        self._silence = aiohttp.ClientTimeout(
            total=None, sock_connect=connect_s, sock_read=engine.timeout_s
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
        started = time.monotonic()
        body = self._dialect.request(call)
        retries = 0
        while True:
            try:
                reply = await self._attempt(call, body)
                break
            except AttemptError as failed:
                trouble = failed
            if (fault := await self._settle(trouble, retries, started)) is not None:
                reply = Reply(fault=fault)
                break
            retries += 1
        return replace(reply, retries=retries, seconds=time.monotonic() - started)

    async def stream(self, call: Call) -> AsyncGenerator[str | Reply]:
        """Yield the pieces of an answer, then the reply; retries only before the first piece.

        Raises CallError if the answer breaks off, stalls or cannot begin, and EngineStopped as
        `complete` does.
        """
        started = time.monotonic()
        body = self._dialect.request(call, stream=True)
        retries, begun = 0, False
        while True:
            try:
                async with aclosing(self._pieces(call, body)) as pieces:
                    async for piece in pieces:
                        begun = True
                        if isinstance(piece, str):
                            yield piece
                        else:
                            seconds = time.monotonic() - started
                            yield replace(piece, retries=retries, seconds=seconds)
                return
            except AttemptError as failed:
                trouble = failed
            spent = self._engine.max_retries if begun else retries
            fault = await self._settle(trouble, spent, started)
            if fault is not None:
                raise CallError(fault)
            retries += 1

    async def _settle(self, trouble: AttemptError, retries: int, started: float) -> Fault | None:
        """Wait before the next attempt, or return the fault that ends the call.

        Raises EngineStopped if the failure ends the run.
        """
        fault = replace(trouble.fault, detail=self._hide_key(trouble.fault.detail))
        # Retry refused connections until one succeeds or the circuit opens: an outage then ends
        # the run, which can be resumed, instead of failing rows.
        spent = retries >= self._engine.max_retries and not trouble.refused
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

    async def _attempt(self, call: Call, body: bytes) -> Reply:
        async with self._sent(body, self._whole) as response:
            reply = protocol.read_completion(await self._read(response), call)
        self._breaker.succeeded()
        return reply

    async def _pieces(self, call: Call, body: bytes) -> AsyncGenerator[str | Reply]:
        texts: list[str] = []
        finish, usage, last = "", None, False
        watch = LoopWatch()
        try:
            async with self._sent(body, self._silence) as response:
                async for line in _lines(response):
                    event = protocol.read_event(line)
                    finish, usage = event.finish or finish, event.usage or usage
                    if event.text:
                        texts.append(event.text)
                        yield event.text
                        if watch.loops(event.text):
                            finish = "looped"  # closing the connection ends the generation
                            break
                    if last := event.last:
                        break
        except AttemptError:
            # After the finish reason only the token count is missing: keep the answer.
            if not finish:
                raise
        if not (finish or last):
            raise AttemptError("connection", "the stream ended before the answer was complete")
        self._breaker.succeeded()
        yield protocol.as_reply(call, "".join(texts), finish, usage)

    @asynccontextmanager
    async def _sent(
        self, body: bytes, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; turn every error until the block ends into AttemptError.

        It passes on no error of aiohttp, since these contain the request's headers and so the key.
        """
        self._breaker.check()
        try:
            async with self._http.post(
                self._url, data=body, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise protocol.read_error(
                        response.status, response.headers, await self._read(response)
                    )
                yield response
        except aiohttp.ConnectionTimeoutError:
            raise AttemptError("timeout", "no connection in time", refused=True) from None
        except TimeoutError:
            raise AttemptError("timeout", f"no answer in {self._engine.timeout_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise AttemptError("connection", _reason(error.os_error), refused=True) from None
        except aiohttp.ClientPayloadError:
            raise AttemptError("server", "the response broke off in its body") from None
        except (aiohttp.ClientError, OSError) as error:
            raise AttemptError("connection", _reason(error)) from None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for block in response.content.iter_any():
            body += block
            if len(body) > protocol.MAX_BODY_BYTES:
                raise AttemptError(
                    "server", f"the response is over {protocol.MAX_BODY_BYTES} bytes"
                )
        return bytes(body).replace(self._key.encode(), b"***") if self._key else bytes(body)

    def _hide_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    size, rest = 0, b""
    async for block in response.content.iter_any():
        if (size := size + len(block)) > protocol.MAX_BODY_BYTES:
            raise AttemptError("server", f"the stream is over {protocol.MAX_BODY_BYTES} bytes")
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line
    yield rest


def _reason(error: Exception) -> str:
    """Describe an error in one line, without its request."""
    if isinstance(error, OSError) and error.strerror:
        # aiohttp's text repeats the address; a resolver's error numbers are below 0.
        return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    return f"{type(error).__name__}: {error}"
