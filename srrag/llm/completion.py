"""Prompts to a language model, and their completions.

An Engine names the model that answers, and is part of a step's identity. A Client sends prompts to
it. The engine `Rules` needs no client: each LLMStep answers by its own baseline.
"""

from __future__ import annotations

import abc
import contextvars
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import Template
from typing import Any, ClassVar, Protocol

import pydantic
import pydantic.json_schema

from srrag.core.errors import Halt
from srrag.llm.fields import explained


class _OwnWords(pydantic.json_schema.GenerateJsonSchema):
    """A schema without the titles and docstrings of our code; `Field(description=…)` stays."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No field is titled."""
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """The schema of a class, without its name and docstring."""
        made = super().model_schema(schema)
        return {key: made[key] for key in made if key not in ("title", "description")}


class Answer(pydantic.BaseModel):
    """Base of every output schema: guides the decoding and parses the text; no stray keys."""

    model_config = pydantic.ConfigDict(extra="forbid")

    example: ClassVar[dict[str, Any] | None] = None
    """An answer that is right in another case, which prompts show; it validates."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The JSON schema that a model is guided by or shown."""
        return super().model_json_schema(*args, **({"schema_generator": _OwnWords} | kwargs))


Enums = tuple[tuple[str, tuple[str, ...]], ...]
"""Allowed values of fields of an answer, each named as "Model.field"; of a list of texts, regular
expressions for its items."""


@dataclass(frozen=True)
class Prompt:
    """One prompt to a language model.

    `row` is its row in the batch. `slot` distinguishes several prompts of a row, `draw` several
    samples of a prompt. The answer follows `schema`. In a retry, `turns` holds the former answers,
    each with what was wrong with it. `enums` lists the values that guided decoding allows for
    fields, by "Model.field". `question` and `options` are those that the prompt is about, if it is
    about one; recorded answers are found by them, and no key holds them.
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
    enums: Enums = ()
    question: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """Why an answer is unusable: a kind for counting, and a detail that the model is shown.

    Kinds of bad output: empty, whitespace, only_thinking, refusal, truncated, looped (it repeated
    itself), example (it hands back the prompt's), invalid_json, wrong_type, and those of a step's
    own check (ungrounded, nonsense, …). Kinds of failed calls: see FAILED_CALLS.

    Where only some items of an answer's lists are at fault, `items` names them, each by its list
    and its place in it, beyond its end if it lacks: a retry asks for them alone, the others stand.
    """

    kind: str
    detail: str
    items: tuple[tuple[str, int], ...] = ()


FAILED_CALLS = ("too_long", "refused_call", "timeout", "server", "connection", "crash")
"""Kinds of faults of calls that ended without an answer, whatever text had come before."""

LOST = (
    "empty", "whitespace", "only_thinking", "refusal", "truncated", "looped", "example",
    "invalid_json", "wrong_type", "nonsense", *FAILED_CALLS,
)  # fmt: skip
"""Kinds of faults that leave no usable answer, so that the row is rejected."""

NOT_ASKED = Fault("not_asked", "")
"""The fault of a prompt that is not in the log and that the engine may not be asked."""

AWAITED = Fault("awaited", "")
"""The fault of a prompt that went into a file of prompts, and whose answer comes later."""


@dataclass(frozen=True)
class Completion:
    """The answer to a prompt: either `value`, an instance of the prompt's schema, or a `fault`.

    `text` is what the model said, without its thinking. `paid` is False for an answer that came
    from the log. `lost` counts the items of its lists that could not be read. A `cut` answer broke
    off within a list, whose end is unknown.
    """

    text: str = ""
    value: Any = None
    fault: Fault | None = None
    paid: bool = False
    lost: int = 0
    cut: bool = False


class PromptFile:
    """A prompt template: system text, a line `---`, user text; both may contain $names.

    `$format` in the system text stands for what the schema says of the answer. Raises ValueError at
    first use if the file has no line `---`.
    """

    def __init__(self, path: Path, schema: type[Answer] | None = None) -> None:
        """Bind the file, which is read at first use, and what it asks for."""
        self.path = path
        self.schema = schema

    @cached_property
    def _templates(self) -> tuple[Template, Template]:
        system, line, user = self.path.read_text("utf-8").partition("\n---\n")
        if not line:
            raise ValueError(f"{self.path}: no line '---' between system and user text")
        return Template(system.strip()), Template(user.strip())

    def system(
        self, limits: Mapping[str, int] | None = None, enums: Enums = (), **values: object
    ) -> str:
        """Fill in the system text; raises KeyError for a name without a value.

        `limits` and `enums` are those of `explained`.
        """
        if self.schema is not None:
            values["format"] = explained(self.schema, limits, dict(enums))
        return self._templates[0].substitute(values)

    def user(self, **values: object) -> str:
        """Fill in the user text; raises KeyError for a name without a value."""
        return self._templates[1].substitute(values)


@dataclass
class Usage:
    """The cost of answers: calls made, answers found in the log, and the tokens of both.

    `tokens_in` and `tokens_out` count every answer used; `cached_tokens_in` and
    `cached_tokens_out` count the part from the log. `retries` counts calls sent again after an
    error, `again` prompts sent again after a bad answer, `faults` bad answers by kind.
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
        """Add the counts of another usage."""
        for name in self.__dataclass_fields__:
            if name != "faults":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults.update(other.faults)

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON, with faults by kind."""
        counts = {n: getattr(self, n) for n in self.__dataclass_fields__ if n != "faults"}
        return {**counts, "faults": dict(self.faults.most_common())}

    @classmethod
    def of(cls, counts: dict[str, Any]) -> Usage:
        """Build a usage from what `as_dict` returns."""
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
    """Add to the usage that `tallied` collects in this context, if any."""
    if (collecting := _tally.get()) is not None:
        collecting.add(usage)


@dataclass(frozen=True, kw_only=True)
class Engine(abc.ABC):
    """Names who answers prompts. Its fields are its identity, except those for placement."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name that answers carry: kind, model and revision."""


@dataclass(frozen=True, kw_only=True)
class Rules(Engine):
    """The engine without a model: each LLMStep answers by its own baseline, and says so."""

    @property
    def name(self) -> str:
        """The word "rules"."""
        return "rules"


@dataclass(frozen=True)
class Account:
    """The completions log of a run, and the ceilings on the tokens and money that it records.

    `log` is the folder of the log, by default `completions` in the root. `fresh` grants new tries
    to prompts that have used up theirs. The run ends when more than `max_lost_share` of the
    prompts have a bad last answer.
    """

    log: Path | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    fresh: bool = False
    max_lost_share: float = 1.0


class Client(Protocol):
    """Sends prompts to an engine, and logs every answer that is paid for."""

    fresh: bool
    """Whether prompts that have used up their tries get new ones (`retry_failed`)."""

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        """Answer each prompt, in order, with a value of its schema or a fault.

        A prompt that is neither in the log nor allowed by `may_call` gets the fault NOT_ASKED.
        Raises only EngineStopped.
        """
        ...


class DryClient(abc.ABC):
    """A Client that calls nothing; where the log holds no answer, the rules' answer stands in."""

    @abc.abstractmethod
    def stand_in(
        self, prompts: Sequence[Prompt], answers: Sequence[Completion], texts: Sequence[str]
    ) -> list[Completion]:
        """Return the answers, with the rules' text where a prompt was not asked."""


def one_line(error: object, most_chars: int = 500) -> str:
    """The message of an error in one line, without control characters."""
    said = f"no {error}" if isinstance(error, KeyError) else str(error)  # its text is only the key
    text = "".join(c if c.isprintable() else " " for c in said)
    return " ".join(text.split())[:most_chars]


class EngineStopped(Halt):
    """Ends the run because the endpoint is gone or the budget is spent, never because of a row."""


class BudgetSpent(EngineStopped):
    """Ends the run because of the ceiling that its user set: no waiting mends it."""


class AnswersAwaited(Halt):
    """Ends the run until prompts that it wrote to files are answered; says which (exit code 3)."""


# Non-printing characters except line feed and tab.
_UNPRINTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Tags and special tokens of chat templates, which tokenizers recognise in any text: </x>, <x>,
# <|x|>; but not "p < 0.05" or "x<y".
_TAG = re.compile(r"<(?=\s{0,9}[/|｜]|[A-Za-z_][^\s<>]{0,60}>)")
_BRACKET = re.compile(r"\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_[A-Z]{1,12})\])")


def inert(text: str) -> str:
    """Disarm control characters, tags and special tokens, without changing any offset.

    Control characters become blanks; another bracket replaces the opening one of a tag or token.
    """
    return _BRACKET.sub("(", _TAG.sub("‹", _UNPRINTED.sub(" ", text)))


def fenced(tag: str, text: str) -> str:
    """Put a text between <tag> lines, with its line breaks, so that a model can quote it."""
    return f"<{tag}>\n{inert(text)}\n</{tag}>"


def quoted(value: object) -> str:
    """Write a value as one line of JSON, disarmed, so that its text cannot end a string."""
    return inert(json.dumps(value, ensure_ascii=False))
