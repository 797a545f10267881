"""The base class of engines that run a language model."""

from __future__ import annotations

import abc
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol, Self, runtime_checkable

from srrag.core.errors import EngineError
from srrag.core.spec import canonical, place_field, spec
from srrag.llm.completion import Answer, Engine, Enums, Fault, Prompt

TEMPLATE_TOKENS = 32
"""Upper bound on the tokens that an engine and its chat template add to a message."""


@dataclass(frozen=True)
class Call:
    """One prompt, ready to send. `key` identifies it with 16 bytes."""

    key: bytes
    prompt: Prompt
    attempt: int = 0

    @property
    def seed(self) -> int:
        """A seed of 31 bits that derives from the key."""
        return int.from_bytes(self.key[:4], "big") & 0x7FFFFFFF

    def messages(self) -> list[dict[str, str]]:
        """The chat messages: system, user, then each former answer with what was wrong with it."""
        messages = [
            {"role": "system", "content": self.prompt.system},
            {"role": "user", "content": self.prompt.user},
        ]
        for answer, wrong in self.prompt.turns:
            messages.append({"role": "assistant", "content": answer})
            messages.append({"role": "user", "content": wrong})
        return messages

    @property
    def most_tokens_in(self) -> int:
        """Upper bound on the prompt's tokens: one a byte of texts and schema, and the template."""
        texts = [message["content"] for message in self.messages()]
        size = sum(len(text.encode("utf-8", "replace")) + TEMPLATE_TOKENS for text in texts)
        return size + len(schema_json(self.prompt.schema).encode())


@dataclass(frozen=True)
class Reply:
    """The result of a call: a text, or a fault that concerns this call alone.

    `finish` is "stop", "length" for an answer cut off at `max_tokens`, or "looped" for one that was
    cut off because it repeated itself. `tokens_thought` are those of `tokens_out` for thinking that
    the endpoint counts. `retries` counts the attempts after the first. A call that was never
    answered has 0 tokens. `note` is what to tell the user of the engine, once.
    """

    text: str = ""
    finish: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_thought: int = 0
    retries: int = 0
    seconds: float = 0.0
    fault: Fault | None = None
    note: str = ""
    known: bool = False
    """Whether the answer was already in the journal, and so paid for by an earlier call."""


class Session(Protocol):
    """A running engine."""

    async def complete(self, call: Call) -> Reply:
        """Answer one of many concurrent calls. Raises EngineStopped to end the run."""
        ...

    async def close(self) -> None:
        """Release the session's resources."""
        ...


Opener = Callable[[], Awaitable[Session]]
"""Starts an engine and returns its session."""


class SessionLostError(EngineError):
    """The session is lost, for example because the engine's process died; a new one may work."""


async def reply_of(pieces: AsyncGenerator[str | Reply, None]) -> Reply:
    """The reply that the pieces of an answer end with."""
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Reply):
                return piece
    raise TypeError("the stream ended without a reply")


@lru_cache(maxsize=256)
def schema_json(schema: type[Answer]) -> str:
    """The JSON schema of an answer as text, with its fields in the order of their declaration.

    Guided decoding generates the fields in this order, so declare reasons before judgements.
    """
    return json.dumps(schema.model_json_schema(), ensure_ascii=False, separators=(",", ":"))


LENGTHS = frozenset({"minLength", "maxLength"})
"""Bounds of texts in a schema."""


def allowed(schema: type[Answer], enums: Enums, dropped: frozenset[str] = frozenset()) -> Any:
    """The JSON schema of an answer whose named fields ("Model.field") allow these values alone.

    Of a list of texts, the values are regular expressions, one of which each item follows. The
    keywords in `dropped` are left out.
    """
    shape = schema.model_json_schema()
    models = {**shape.get("$defs", {}), schema.__name__: shape}
    for name, values in enums:
        model, _, field = name.partition(".")
        properties = models[model]["properties"]
        if properties[field].get("items", {}).get("type") == "string":
            either = "|".join(f"({value})" for value in values)
            properties[field]["items"]["pattern"] = f"^({either})$"
        else:
            properties[field] = {"type": "string", "enum": list(values)}
    return _without(shape, dropped)


def _without(node: Any, dropped: frozenset[str]) -> Any:
    """Drop keywords from a schema, but keep properties of the same names."""
    if isinstance(node, list):
        return [_without(item, dropped) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _without(child, dropped) for name, child in value.items()}
        if key in ("properties", "$defs")
        else value
        if key in ("const", "enum", "default", "examples")
        else _without(value, dropped)
        for key, value in node.items()
        if key not in dropped
    }


@lru_cache(maxsize=64)
def _engine_json(engine: Engine) -> str:
    return canonical(spec(engine))


@lru_cache(maxsize=1024)
def _prefix(engine: Engine, schema: type[Answer], system: str) -> bytes:
    return _digest([_engine_json(engine), schema_json(schema), system])


def _digest(values: list[object]) -> bytes:
    text = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()


def key_of(engine: Engine, prompt: Prompt, attempt: int = 0) -> bytes:
    """Hash everything that decides an answer: engine, guide, prompt, sampling, draw, attempt."""
    enums = [[[name, list(values)] for name, values in prompt.enums]] if prompt.enums else []
    return _digest(
        [
            _prefix(engine, prompt.schema, prompt.system).hex(),
            *enums,
            prompt.user,
            [list(turn) for turn in prompt.turns],
            prompt.temperature,
            prompt.max_tokens,
            prompt.draw,
            attempt,
        ]
    )


@dataclass(frozen=True)
class Worker:
    """The Ray resources of an engine replica that runs in its own process."""

    cpus: float
    gpus: float


@dataclass(frozen=True, kw_only=True)
class Model(Engine):
    """An engine that opens a session. `seed` and `temperature` are identity; the rest is placement.

    `seed` distinguishes repetitions: it enters the key of every prompt, and each answer's random
    seed derives from the key. `temperature` applies to prompts that set none; None means 0.
    Prices are in US dollars per million tokens, rates in tokens per second of the whole engine;
    both serve estimates and ceilings. `tokenizer` is a folder, a hub id, or "utf8" for four bytes
    per token; only estimates use it.
    """

    seed: int = 0
    temperature: float | None = None
    concurrency: int = place_field(64)
    usd_per_mtok_in: float | None = place_field(None)
    usd_per_mtok_out: float | None = place_field(None)
    tokens_per_s_in: float | None = place_field(None)
    tokens_per_s_out: float | None = place_field(None)
    tokenizer: str | None = place_field(None)

    def __post_init__(self) -> None:
        """Raise ValueError for a temperature outside [0, 2]."""
        if self.temperature is not None and not 0.0 <= self.temperature <= 2.0:
            raise ValueError(f"engine.temperature: {self.temperature} is not in [0, 2]")

    @property
    def started(self) -> Self:
        """The engine without seed and temperature; engines equal in the rest share a session."""
        return replace(self, seed=0, temperature=None)

    def appended(self, schema: type[Answer]) -> str:
        """The text that the engine appends to the system text for this schema; "" for none."""
        return ""

    def sampled(self, prompt: Prompt) -> Prompt:
        """The prompt with this engine's temperature, if the prompt sets none."""
        if self.temperature is None or prompt.temperature:
            return prompt
        return replace(prompt, temperature=self.temperature)

    def limit(self, prompt: Prompt) -> int:
        """The most tokens that an answer may have."""
        return prompt.max_tokens

    @property
    def replicas(self) -> int:
        """Number of sessions that share the calls."""
        return 1

    @property
    def counts_by(self) -> str | None:
        """The tokenizer that estimates count with, or None."""
        return self.tokenizer

    @property
    def hourly_usd(self) -> float:
        """US dollars per hour of the whole engine, in addition to the price of its tokens."""
        return 0.0

    @property
    def deferred(self) -> bool:
        """Whether answers come after the run, from files, instead of during it (BatchSession)."""
        return False

    def worker(self) -> Worker | None:
        """The resources of a replica, or None if the session runs in the dispatcher's process."""
        return None

    def price(self, tokens_in: int, tokens_out: int) -> float:
        """The price of tokens in US dollars; 0 without prices."""
        prices = self.usd_per_mtok_in or 0.0, self.usd_per_mtok_out or 0.0
        return (tokens_in * prices[0] + tokens_out * prices[1]) / 1e6

    @property
    def priced(self) -> bool:
        """Whether a price is known: of tokens, or of hours and of tokens an hour."""
        by_token = None not in (self.usd_per_mtok_in, self.usd_per_mtok_out)
        return by_token or bool(self.hourly_usd and self.tokens_per_s_out)

    @abc.abstractmethod
    async def open(self) -> Session:
        """Start a session; raises an error of one clear line if it cannot start."""


Listen = Callable[[Prompt, int, str], None]
"""Observer called with prompt, attempt and the next piece of its answer, in the engine's thread."""


@runtime_checkable
class StreamingSession(Session, Protocol):
    """A session that can also stream its answers."""

    def stream(self, call: Call) -> AsyncGenerator[str | Reply, None]:
        """Yield the pieces of an answer, then the reply that `complete` would return.

        Of an answer that breaks off, the reply holds what had come, and says how.
        """
        ...


@dataclass
class _Ear:
    """An observer, the schemas of the answers that it observes, and the error that it raised."""

    listen: Listen
    schemas: tuple[type[Answer], ...]
    error: Exception | None = None

    def hear(self, call: Call, piece: str) -> None:
        if self.error is None:
            try:
                self.listen(call.prompt, call.attempt, piece)
            except Exception as error:
                # The call is paid for, so it continues and its answer is kept.
                self.error = error


_ear: ContextVar[_Ear | None] = ContextVar("ear", default=None)


@contextmanager
def listening(listen: Listen, *schemas: type[Answer]) -> Iterator[None]:
    """Observe the answers of these schemas to prompts sent in this context (thread or task).

    Only new answers of engines in this process are streamed; answers from the log or from another
    process arrive whole. An error of the observer is raised when the block ends.
    """
    ear = _Ear(listen, schemas)
    token = _ear.set(ear)
    try:
        yield
    finally:
        _ear.reset(token)
    if ear.error is not None:
        raise ear.error


async def answered(session: Session, call: Call) -> Reply:
    """Answer a call, streaming it if this context has an observer and the session can stream."""
    ear = _ear.get()
    if ear is None or call.prompt.schema not in ear.schemas:
        return await session.complete(call)
    async with aclosing(pieces(session, call)) as items:
        async for item in items:
            if isinstance(item, Reply):
                return item
            ear.hear(call, item)
    raise TypeError(f"{type(session).__name__}.stream ended without a reply")


async def pieces(session: Session, call: Call) -> AsyncGenerator[str | Reply, None]:
    """Yield the pieces of a session's answer, then the reply; of one that cannot stream only it."""
    if not isinstance(session, StreamingSession):
        yield await session.complete(call)
        return
    async with aclosing(session.stream(call)) as items:
        async for item in items:
            yield item
