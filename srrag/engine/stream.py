"""Answers heard while they are written: drafts, which count for nothing until the log has them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from srrag.engine.call import Call, CallError, Reply, Session
from srrag.llm.completion import Answer, Prompt

Listen = Callable[[Prompt, int, str], None]
"""Hears prompt, attempt and the next piece of its answer, in the engine's own thread."""


@runtime_checkable
class StreamingSession(Session, Protocol):
    """A session that can also answer piece by piece, for use online."""

    def stream(self, call: Call) -> AsyncGenerator[str | Reply, None]:
        """Give the pieces of an answer, then the reply as `complete` would.

        Raises CallError when it breaks off.
        """
        ...


@dataclass
class _Ear:
    """A listener, the answers that it wants to hear, and the error that made it deaf."""

    listen: Listen
    schema: type[Answer]
    error: Exception | None = None

    def hear(self, call: Call, piece: str) -> None:
        if self.error is None:
            try:
                self.listen(call.prompt, call.attempt, piece)
            except Exception as error:
                # The call is paid for: it goes on, and its answer is kept.
                self.error = error


_ear: ContextVar[_Ear | None] = ContextVar("ear", default=None)


@contextmanager
def listening(listen: Listen, schema: type[Answer]) -> Iterator[None]:
    """Hear answers of this schema to what is asked in this context (thread or task).

    Only engines in this process are heard, and only what they are asked now: an answer from the
    log, or of an engine elsewhere, comes whole. What the listener raises is raised at the end.
    """
    ear = _Ear(listen, schema)
    token = _ear.set(ear)
    try:
        yield
    finally:
        _ear.reset(token)
    if ear.error is not None:
        raise ear.error


async def answered(session: Session, call: Call) -> Reply:
    """Answer a call, aloud where somebody listens and the session can."""
    ear = _ear.get()
    if ear is None or call.prompt.schema is not ear.schema:
        return await session.complete(call)
    if not isinstance(session, StreamingSession):
        return await session.complete(call)
    began = time.monotonic()
    try:
        async with aclosing(session.stream(call)) as items:
            async for item in items:
                if isinstance(item, Reply):
                    return item
                ear.hear(call, item)
    except CallError as error:
        return Reply(fault=error.fault, seconds=time.monotonic() - began)
    raise TypeError(f"{type(session).__name__}.stream ended without a reply")
