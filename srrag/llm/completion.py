"""Calls to a language model: what is asked, who answers, what came back.

An Engine says who answers, and is part of a step's identity. A Client carries prompts to it;
`Rules` needs none: each LLMStep answers by its own baseline.
"""

from __future__ import annotations

import abc
import contextvars
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import Template
from typing import Any, Protocol

import pydantic


class Answer(pydantic.BaseModel):
    """Base of every output schema: guides the decoding and parses the text; no stray keys."""

    model_config = pydantic.ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Prompt:
    """One question to a language model.

    `row` is the row of the batch that it belongs to, `slot` tells several prompts of a row
    apart, `draw` several samples of a prompt. `schema` is the shape of the answer. `turns` are
    former answers, each with what was wrong with it, when the model is asked again.
    """

    row: int
    slot: str
    system: str
    user: str
    schema: type[Answer]
    temperature: float = 0.0
    max_tokens: int = 1024
    draw: int = 0
    turns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Fault:
    """What is wrong with an answer: a kind to count by, and the detail shown to the model.

    Kinds of output: empty, whitespace, refusal, truncated, invalid_json, wrong_type, and what a
    step's own check finds (ungrounded, nonsense, …). Kinds of a call: too_long, refused_call,
    timeout, server, connection, crash.
    """

    kind: str
    detail: str


LOST = (
    "empty", "whitespace", "refusal", "truncated", "invalid_json", "wrong_type", "nonsense",
    "too_long", "refused_call", "timeout", "server", "connection", "crash",
)  # fmt: skip
"""Faults for which a row is rejected: there is no answer that can be used."""

NOT_ASKED = Fault("not_asked", "")
"""Of a prompt that is not in the log and may not be called for."""


@dataclass(frozen=True)
class Completion:
    """The answer to a prompt: either `value`, an instance of the prompt's schema, or a `fault`.

    `paid` is False for an answer that came from the log.
    """

    text: str = ""
    value: Any = None
    fault: Fault | None = None
    paid: bool = False


_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|(?:can(?:no|')t|unable to|not able to|won't|will not) "
    r"(?:\w+ ){0,3}(?:help|assist|comply|provide|answer|fulfil|do)|as an ai)\b",
    re.IGNORECASE,
)
_MAX_DETAIL_CHARS = 300


def read(text: str, schema: type[Answer], finish: str = "stop") -> Completion:
    """Parse an answer by its schema; whatever is wrong with it becomes a fault of its kind."""
    body = text.strip()
    if fenced := _FENCE.match(body):
        body = fenced[1]
    # Raw control characters are no JSON, yet the grammars of guided decoding let them through.
    body = _CONTROL.sub(" ", body)
    if not body:
        kind = "whitespace" if text else "empty"
        return Completion(text, fault=Fault(kind, "The answer held no text."))
    try:
        return Completion(text, value=schema.model_validate_json(body))
    except pydantic.ValidationError as error:
        return Completion(text, fault=_fault(text, finish, error))


def _fault(text: str, finish: str, error: pydantic.ValidationError) -> Fault:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    detail = f"{where}: {first['msg']}" if where else str(first["msg"])
    detail = detail.encode("utf-8", "replace").decode()[:_MAX_DETAIL_CHARS]
    if finish == "length":
        # Blanks without end are how a guided weak model runs to the limit.
        blank = re.search(r"\s{50,}", text)
        return Fault("whitespace" if blank else "truncated", "The answer was cut off: too long.")
    if first["type"] != "json_invalid":
        return Fault("wrong_type", detail)
    start = text.lstrip()[:300]
    if start[:1] not in "{[" and _REFUSAL.search(start):
        return Fault("refusal", "The answer was a refusal.")
    return Fault("invalid_json", detail)


class PromptFile:
    """A prompt: system and user text around a line `---`, with $names to fill in."""

    def __init__(self, path: Path) -> None:
        """Bind the file; it is read at first use."""
        self.path = path

    @cached_property
    def _templates(self) -> tuple[Template, Template]:
        system, line, user = self.path.read_text("utf-8").partition("\n---\n")
        if not line:
            raise ValueError(f"{self.path}: no line '---' between system and user text")
        return Template(system.strip()), Template(user.strip())

    def system(self, **values: object) -> str:
        """The system text; raises KeyError for a name without a value."""
        return self._templates[0].substitute(values)

    def user(self, **values: object) -> str:
        """The user text; raises KeyError for a name without a value."""
        return self._templates[1].substitute(values)


@dataclass
class Usage:
    """What answering took: calls made, answers found in the log, tokens of both.

    `tokens_in` and `tokens_out` count every answer used; those of answers from the log are in
    `cached_tokens_in` and `cached_tokens_out` too. `retries` are calls sent again after an
    error, `again` prompts asked once more after a bad answer, `faults` bad answers by kind.
    """

    calls: int = 0
    cached: int = 0
    retries: int = 0
    again: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached_tokens_in: int = 0
    cached_tokens_out: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Usage) -> None:
        """Add another's counts."""
        for name in self.__dataclass_fields__:
            if name != "faults":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults.update(other.faults)

    def as_dict(self) -> dict[str, Any]:
        """Counts as JSON, faults by kind."""
        counts = {n: getattr(self, n) for n in self.__dataclass_fields__ if n != "faults"}
        return {**counts, "faults": dict(self.faults.most_common())}

    @classmethod
    def of(cls, counts: dict[str, Any]) -> Usage:
        """The inverse of `as_dict`."""
        return cls(**{**counts, "faults": Counter(counts.get("faults", {}))})


_tally: contextvars.ContextVar[Usage | None] = contextvars.ContextVar("tally", default=None)


@contextmanager
def tallied() -> Iterator[Usage]:
    """Collect the usage of every answer given in this context (thread or task)."""
    usage = Usage()
    token = _tally.set(usage)
    try:
        yield usage
    finally:
        _tally.reset(token)


def tally(usage: Usage) -> None:
    """Add to the usage that is being collected here, if any is."""
    if (collecting := _tally.get()) is not None:
        collecting.add(usage)


@dataclass(frozen=True, kw_only=True)
class Engine(abc.ABC):
    """Who answers prompts: its fields are its identity, but for those that say where it runs."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """How answers name it: kind, model and revision."""


@dataclass(frozen=True, kw_only=True)
class Rules(Engine):
    """No model: every LLMStep answers by its own baseline, and the output says so."""

    @property
    def name(self) -> str:
        """The word "rules"."""
        return "rules"


@dataclass(frozen=True)
class Account:
    """What pays for the calls of a run: the log that keeps them, and ceilings on all it holds.

    `log` is the folder of the completions log, by default `completions` in the root. `fresh`
    tries prompts anew whose tries are spent. Above `max_lost_share` of prompts whose last answer
    too was bad, the run ends.
    """

    log: Path | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    fresh: bool = False
    max_lost_share: float = 1.0


class Client(Protocol):
    """Carries prompts to an engine; everything that is paid for goes through its log."""

    fresh: bool
    """Whether prompts whose tries are spent are tried anew (`retry_failed`)."""

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        """Answer each prompt, in order: a value of its schema or a fault, never an exception.

        A prompt that is not in the log and may not be called for is NOT_ASKED. Raises only
        EngineStopped.
        """
        ...


def one_line(error: object, most_chars: int = 500) -> str:
    """What an error says, in one line without controls."""
    said = f"no {error}" if isinstance(error, KeyError) else str(error)  # it says the key alone
    text = "".join(c if c.isprintable() else " " for c in said)
    return " ".join(text.split())[:most_chars]


class EngineStopped(RuntimeError):
    """The run ends: the endpoint is gone, or the budget is spent. Never the fault of a row."""
