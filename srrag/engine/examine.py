"""Examines an engine by five prompts of its own: what it can do of what the steps ask for."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from srrag.engine.base import Call, Model, Reply, Session, key_of, pieces
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import Answer, Completion, Engine, EngineStopped, Prompt
from srrag.llm.fields import Items, Text
from srrag.llm.read_answer import read, spoken

CONTEXT_LINES = 500
"""Lines of the longest prompt: about 8,000 tokens, as those of a question with its papers."""
_STRUCTURED = "engine.structured=json_object, or none"
_PATTERN = r"[a-z]+ = [0-9]+"
_SYSTEM = "You answer with one JSON object."
_GOOD = re.compile(rf"{_PATTERN}\Z")


class _Place(Answer):
    """A country."""

    country: Annotated[str, Text(5, "the country")]


class _Colour(Answer):
    """One of two colours."""

    colour: Literal["red", "green"]


class _Lines(Answer):
    """Lines of a pattern."""

    lines: Annotated[list[str], Items(5, "the lines")]


class _Words(Answer):
    """Many words."""

    words: Annotated[list[str], Items(200, "the words")]


PLACE = Prompt(0, "place", f'{_SYSTEM} Its key is "country".', "Where is Paris?", _Place)
COLOUR = Prompt(
    0, "colour", "You answer in plain prose, without JSON.", "What colour is the sky?", _Colour
)
LINES = Prompt(
    0, "lines", f'{_SYSTEM} Its key is "lines", a list of sentences.',
    "Write two sentences on the weather, each with a capital letter.", _Lines,
    enums=(("_Lines.lines", (_PATTERN,)),),
)  # fmt: skip
CONTEXT = Prompt(
    0, "context", f'{_SYSTEM} Its key is "country".',
    "\n".join(
        ["The traveller comes from Portugal.", *(
            f"On day {n} the traveller walked {n % 17 + 3} miles and slept in a small inn."
            for n in range(CONTEXT_LINES)
        ), "Which country does the traveller come from?"]
    ), _Place,
)  # fmt: skip
WORDS = Prompt(
    0, "words", f'{_SYSTEM} Its key is "words", a list of texts.',
    "Write out the numbers from one to one hundred in words.", _Words,
)  # fmt: skip


@dataclass(frozen=True)
class Capability:
    """What an engine can do (or cannot, if not `ok`), in one line."""

    check: str
    ok: bool
    detail: str


class _Asked(NamedTuple):
    """A prompt's reply and answer, and the seconds until the first piece of it and all of it."""

    reply: Reply
    answer: Completion
    first_s: float
    whole_s: float

    @property
    def why(self) -> str:
        fault = self.answer.fault
        said = f"it said {self.answer.text[:60]!r}"
        return f"{fault.kind}: {fault.detail}" if fault else said

    def unless_refused(self, setting: str) -> str:
        """Why there is no answer, and the setting to try if the endpoint refused the prompt."""
        fault = self.reply.fault
        return f"{self.why}; try {setting}" if fault and fault.kind == "refused_call" else self.why


def engine_checks(engine: Engine) -> list[dict[str, Any]]:
    """What an engine can do, as `srrag doctor` tells it; nothing of one without a model."""
    if not isinstance(engine, Model):
        return []
    if engine.deferred:
        told = "prompts go to files: nothing is asked now"
        return [{"check": "engine", "ok": True, "detail": told}]
    hasty = replace(engine, max_retries=1) if isinstance(engine, HttpEngine) else engine
    try:
        return [vars(each) for each in asyncio.run(examine(hasty))]
    except (EngineStopped, ValueError) as error:
        return [{"check": "engine", "ok": False, "detail": str(error)}]


async def examine(engine: Model) -> list[Capability]:
    """Ask the five prompts, one after another; raises what `engine.open` does."""
    session = await engine.open()
    found: list[Capability] = []
    replies: list[Reply] = []
    try:
        for name, prompt, judge in _EXAMINED:
            asked = await _asked(session, Call(key_of(engine, prompt), prompt))
            replies.append(asked.reply)
            ok, detail = judge(asked)
            note = f"; {asked.reply.note}" if asked.reply.note else ""
            found.append(Capability(name, ok, detail + note))
            if name == "answers" and asked.reply.fault is not None:
                return found  # nothing else would be answered either
    finally:
        await session.close()
    tokens_in, tokens_out = (
        sum(getattr(reply, name) for reply in replies) for name in ("tokens_in", "tokens_out")
    )
    price = f", {engine.price(tokens_in, tokens_out):.4f} USD" if engine.priced else ""
    spent = f"this examination took {tokens_in:,} tokens in and {tokens_out:,} out{price}"
    return [*found, _thinking(engine, replies), Capability("spent", True, spent)]


async def _asked(session: Session, call: Call) -> _Asked:
    began = time.monotonic()
    first_s = 0.0
    async for piece in pieces(session, call):
        now_s = time.monotonic() - began
        first_s = first_s or now_s
        if isinstance(piece, Reply):
            answer = Completion(fault=piece.fault)
            if piece.fault is None:
                answer = read(piece.text, call.prompt.schema, piece.finish)
            return _Asked(piece, answer, first_s, now_s)
    raise TypeError(f"{type(session).__name__}: its stream ended without a reply")


def _answers(asked: _Asked) -> tuple[bool, str]:
    value = asked.answer.value
    if value is None or "france" not in value.country.lower():
        return False, asked.unless_refused(_STRUCTURED)
    return True, f"right, in {asked.whole_s:.1f} s, the first piece after {asked.first_s:.1f} s"


def _schema(asked: _Asked) -> tuple[bool, str]:
    if asked.reply.fault is not None:
        return False, asked.unless_refused(_STRUCTURED)
    if asked.answer.value is None:
        return True, "not enforced: a prompt for prose gets prose; each answer is checked here"
    return True, "enforced: a prompt for prose gets JSON of the schema"


def _grammar(asked: _Asked) -> tuple[bool, str]:
    if asked.reply.fault is not None:
        return False, asked.unless_refused("engine.bounds=none")
    lines = asked.answer.value.lines if asked.answer.value is not None else ()
    if lines and all(map(_GOOD.match, lines)):
        return True, "enforced: patterns of texts hold against the prompt"
    return True, "not enforced: lines of an extraction may break their pattern, and cost themselves"


def _context(asked: _Asked) -> tuple[bool, str]:
    reply, value = asked.reply, asked.answer.value
    if reply.fault is not None:
        return False, asked.why
    if value is None or "portugal" not in value.country.lower():
        return False, f"the beginning of {reply.tokens_in:,} tokens was not read: {asked.why}"
    whole = "context" not in reply.note  # what it says of a prompt that was cut
    return whole, f"{reply.tokens_in:,} tokens were read from the first line to the last"


def _speed(asked: _Asked) -> tuple[bool, str]:
    if asked.reply.fault is not None:
        return False, asked.why
    waited_s = asked.first_s if asked.first_s < asked.whole_s / 2 else 0.0
    rate = asked.reply.tokens_out / max(asked.whole_s - waited_s, 1e-3)
    return True, f"{rate:.0f} tokens a second to one call"


_EXAMINED: tuple[tuple[str, Prompt, Callable[[_Asked], tuple[bool, str]]], ...] = (
    ("answers", PLACE, _answers),
    ("schema", COLOUR, _schema),
    ("grammar", LINES, _grammar),
    ("context", CONTEXT, _context),
    ("speed", WORDS, _speed),
)


def _thinking(engine: Model, replies: list[Reply]) -> Capability:
    """Whether the model thinks, as it shows or the endpoint counts, and has room for it."""
    longest = max(
        reply.tokens_out - len(spoken(reply.text).encode()) // 4
        if spoken(reply.text) != reply.text
        else reply.tokens_thought
        for reply in replies
    )
    if not longest:
        return Capability("thinking", True, "none is shown or counted")
    room = getattr(engine, "thinking", None) or 0
    told = f"it thinks, up to {longest:,} tokens"
    if room >= longest:
        return Capability("thinking", True, f"{told} of engine.thinking={room}")
    wanted = -(-2 * longest // 1000) * 1000
    return Capability("thinking", False, f"{told}: set engine.thinking={wanted} or more")
