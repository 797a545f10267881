"""Streams answers to an observer while a model writes them; they are drafts until logged."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from srrag.engine.call import Call, Reply, Session
from srrag.llm.completion import Answer, Prompt

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
