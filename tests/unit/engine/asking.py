"""Calls to ask of a session, and how to ask them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from pydantic import Field

from srrag.engine.base import Call, Reply, Session, key_of
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Answer, Prompt

T = TypeVar("T")


class Shape(Answer):
    finding: Annotated[str, Field(min_length=1, max_length=200)]
    certainty: Annotated[float, Field(ge=0, le=1)]
    grades: Annotated[list[str], Field(min_length=1, max_length=3)]


def engine_at(url: str, **fields: Any) -> HttpEngine:
    return HttpEngine(**{"model": "m", "base_url": url, "timeout_s": 100.0, **fields})


def call(number: int = 0) -> Call:
    prompt = Prompt(number, "", "Summarise.", f"{number}: exercise helps the neck.", Shape)
    return Call(key_of(HttpEngine(model="m"), prompt), prompt)


def within(engine: HttpEngine, scene: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        session = await engine.open()
        try:
            return await scene(session)
        finally:
            await session.close()

    return asyncio.run(run())


def replies(engine: HttpEngine, num: int) -> list[Reply]:
    async def scene(session: Session) -> list[Reply]:
        return await asyncio.gather(*(session.complete(call(n)) for n in range(num)))

    return within(engine, scene)


def reply(engine: HttpEngine) -> Reply:
    return replies(engine, 1)[0]
