"""Streams an answer as server-sent events while the pipeline makes it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from srrag.serve.api.question import PendingQuestion
from srrag.serve.errors import ApiError

KEEP_ALIVE = ": still at it\n\n"


async def answer_events(
    asked: PendingQuestion, explained: bool, clinical: bool = False
) -> AsyncIterator[str]:
    """Yield the events `stage`, `evidence`, `finding` and `token`, then `final` or `error`.

    Tokens belong to a draft that the pipeline may still change; only `final` counts.
    """
    try:
        async for name, data in asked.events():
            if name == "found":
                reply = await asked.reply(data, explained, clinical)
                yield event("final", reply.json)
            elif name == "evidence":
                numbered = [{"number": n, **item} for n, item in enumerate(data, start=1)]
                yield event(name, {"evidence": numbered})
            elif name == "pause":
                yield KEEP_ALIVE
            elif name == "token":
                yield event(name, {"text": data})
            else:
                yield event(name, data)
    except ApiError as fault:
        asked.passing.notes["code"] = fault.code
        yield event("error", fault.body(asked.passing.id))


def event(name: str, data: Any) -> str:
    """Format one event; JSON contains no raw line break, so the data is one line."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
