"""Name and summarise groups of facts: prompts in batches, in rounds if they exceed one prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.llm.completion import Answer, Client, Completion, Prompt, PromptFile, inert, quoted
from srrag.llm.fields import Text, most_tokens
from srrag.llm.read_answer import read
from srrag.llm.retry_invalid import ask

MAX_SUMMARY_CHARS = 800
"""Of a summary by rules, and of a summary of a portion of the facts."""
_SHOWN = 3


class Description(Answer):
    """What a community is about."""

    example: ClassVar[dict[str, Any] | None] = {
        "name": "Inhaled budesonide for preventing asthma attacks",
        "summary": "Adults and children with asthma inhaled budesonide or placebo. Two randomised "
        "trials (C) found about half as many attacks with budesonide within a year; a cohort (D) "
        "found no difference.",
    }

    name: Annotated[str, Text(10, "a specific heading, without a verb or a full stop")]
    summary: Annotated[str, Text(100, "two to four plain sentences")]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "describe_community.md", Description)


@dataclass(frozen=True)
class Topic:
    """A group to describe: its keywords and its facts, the most informative first."""

    keywords: tuple[str, ...]
    facts: Sequence[str]


Answers = Callable[[Sequence[Topic], Sequence[Prompt]], list[Completion]]


@dataclass
class Described:
    """The descriptions of topics (None for a missing answer), and their usage."""

    found: list[Description | None]
    calls: int = 0
    unanswered: int = 0
    prompt_chars: int = field(default=0)


def describe(
    topics: Sequence[Topic], answer: Answers, max_chars: int, file: PromptFile = PROMPT
) -> Described:
    """Describe each topic by prompts of `file`, of at most `max_chars` characters of facts.

    If the facts exceed one prompt, each portion is described first, then the summaries of the
    portions, until one prompt holds them all. The prompts of a round are asked together.
    """
    result = Described([None] * len(topics))
    pending = dict(enumerate(topics))
    while pending:
        owners, portions = [], []
        for number, topic in pending.items():
            for facts in split(topic.facts, max_chars):
                owners.append(number)
                portions.append(Topic(topic.keywords, facts))
        prompts = [render(portion, row, file) for row, portion in enumerate(portions)]
        answers = answer(portions, prompts)
        result.calls += len(prompts)
        result.prompt_chars += sum(len(p.system) + len(p.user) for p in prompts)
        given: dict[int, list[Description | None]] = {number: [] for number in pending}
        for number, completion in zip(owners, answers, strict=True):
            given[number].append(completion.value)
        result.unanswered += sum(completion.value is None for completion in answers)
        pending = {}
        for number, values in given.items():
            whole = [value for value in values if value is not None]
            if len(values) == 1:
                result.found[number] = values[0]
            elif whole:
                # As they are shown: what counted as longer could fill a portion alone, for ever.
                summaries = [_cut(value.summary) for value in whole]
                pending[number] = Topic(topics[number].keywords, summaries)
    return result


def split(facts: Sequence[str], max_chars: int) -> list[list[str]]:
    """Split facts, in order, into portions of at most `max_chars` characters (or of one fact).

    There is at least one portion.
    """
    portions: list[list[str]] = [[]]
    used = 0
    for fact in facts:
        if portions[-1] and used + len(fact) > max_chars:
            portions.append([])
            used = 0
        portions[-1].append(fact)
        used += len(fact)
    return portions


def render(topic: Topic, row: int, file: PromptFile = PROMPT) -> Prompt:
    """Render the prompt of a topic whose facts fit into one."""
    facts = _items([_cut(fact) for fact in topic.facts])
    return Prompt(
        row=row,
        slot="describe",
        system=file.system(),
        user=file.user(keywords=quoted(list(topic.keywords)), facts=facts),
        schema=Description,
        max_tokens=most_tokens(Description),
    )


def _items(facts: Sequence[str]) -> str:
    """Quote each fact, one a line.

    Facts are joined before quoting, so that no tag can span two facts and escape the quotes.
    """
    lines = json.dumps(facts, ensure_ascii=False, separators=("\n- ", ""))
    return f"- {inert(lines[1:-1])}" if facts else ""


def answers_of(client: Client | None, again: int) -> Answers:
    """Answer by the client of an engine, or by rules where there is none."""
    if client is None:
        return by_rules

    def answer(topics: Sequence[Topic], prompts: Sequence[Prompt]) -> list[Completion]:
        return ask(client, prompts, lambda prompt, value: None, again)

    return answer


def by_rules(topics: Sequence[Topic], prompts: Sequence[Prompt]) -> list[Completion]:
    """Describe by rules: the first keywords as name, the first facts as sentences."""
    found = []
    for topic in topics:
        name = ", ".join(topic.keywords[:_SHOWN])[:120].strip() or "unnamed"
        sentences = [_sentence(fact) for fact in topic.facts[:_SHOWN]] or [_sentence(name)]
        while len(sentences) > 1 and len(" ".join(sentences)) > MAX_SUMMARY_CHARS:
            sentences.pop()
        text = " ".join(sentences)[:MAX_SUMMARY_CHARS]
        found.append(read(Description(name=name, summary=text).model_dump_json(), Description))
    return found


def _sentence(fact: str) -> str:
    text = fact.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _cut(fact: str) -> str:
    """Shorten a fact, or the summary of a portion, to its bound."""
    return fact if len(fact) <= MAX_SUMMARY_CHARS else fact[: MAX_SUMMARY_CHARS - 1] + "…"


DESCRIPTIONS = "descriptions.parquet"
_SCHEMA = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("key", "name", "summary")]
)


def write_descriptions(path: Path, found: Mapping[str, Description]) -> None:
    """Write the descriptions, sorted by key."""
    rows = [{"key": key, **found[key].model_dump()} for key in sorted(found)]
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path, compression="zstd")


def read_descriptions(path: Path) -> dict[str, Description]:
    """Read the descriptions of a previous version, by key."""
    rows = pq.read_table(path).to_pylist()
    return {
        row["key"]: Description.model_construct(name=row["name"], summary=row["summary"])
        for row in rows
    }
