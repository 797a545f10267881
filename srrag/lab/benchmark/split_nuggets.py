"""Split the exact answer into atomic facts, by which judges score answers (SR-RAG, section 4.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.sample import NUGGET_COLUMN, NUGGETED
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Usage, quoted, tally
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.numbers import lost_numbers

STAGE = "nuggets"
MAX_NUGGETS = 16


class Nugget(Answer):
    """A fact, and whether an answer has to state it."""

    text: Annotated[str, Text(25, "one fact, in one short sentence that makes sense by itself")]
    importance: Annotated[
        Literal["vital", "okay"],
        Means(
            "",
            {
                "vital": "if without it the question is not answered, or not answered safely",
                "okay": "if it is good to have: background, further options, finer detail",
            },
        ),
    ]


class Nuggets(Answer):
    """The facts of an answer, the most important first."""

    example: ClassVar[dict[str, Any] | None] = {
        "nuggets": [
            {
                "text": "In adults with asthma, inhaled budesonide prevents attacks.",
                "importance": "vital",
            },
            {"text": "Inhaled budesonide can cause oral thrush.", "importance": "okay"},
        ]
    }

    nuggets: Annotated[list[Nugget], Items(MAX_NUGGETS, "the facts, the most important first")]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "split_nuggets.md", Nuggets)


@dataclass(frozen=True, kw_only=True)
class SplitNuggets(LLMStep):
    """Writes nuggets with one prompt a question, which sees the question and its exact answer.

    A nugget with a number that neither holds is asked for again, then dropped. If no nugget is
    vital, the first becomes vital. A question without nuggets is rejected. By rules each sentence
    of the exact answer is one vital nugget, of the first `MAX_NUGGETS`.
    """

    version: ClassVar[int] = 3
    reads: ClassVar[tuple[str, ...]] = ("text", "exact")
    writes: ClassVar[pa.Schema] = NUGGETED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = most_tokens(Nuggets)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question."""
        return [
            Prompt(
                row,
                STAGE,
                PROMPT.system(),
                PROMPT.user(question=quoted(each["text"]), answer=quoted(joined(each["exact"]))),
                Nuggets,
                max_tokens=self.max_tokens,
            )
            for row, each in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Return the sentences of the exact answer."""
        answers = batch["exact"].to_pylist()
        return [
            by_rules([each["text"] for each in answers[prompt.row]]).model_dump_json()
            for prompt in prompts
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for nuggets with a number that question and answer lack."""
        return fault(value, _sources(batch, prompt.row))

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the nuggets whose numbers are in question or answer."""
        made = {
            prompt.row: _row(completion, _sources(batch, prompt.row))
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        return filled(batch, NUGGET_COLUMN, made)


def by_rules(sentences: Sequence[str]) -> Nuggets:
    """Make each sentence a vital nugget, of the first `MAX_NUGGETS`; others count as `bad_item`."""
    if (lost := len(sentences) - MAX_NUGGETS) > 0:
        tally(Usage(faults=Counter({"bad_item": lost})))
    return Nuggets(nuggets=[Nugget(text=text, importance="vital") for text in sentences])


def fault(value: Nuggets, sources: Sequence[str]) -> Fault | None:
    """Return the fault of nuggets with a number that no source holds."""
    lost = {n: found for n, each in enumerate(value.nuggets)
            if (found := lost_numbers(each.text, sources))}  # fmt: skip
    if not lost:
        return None
    numbers = ", ".join(number for found in lost.values() for number in found)
    detail = f"Neither question nor answer holds these numbers: {numbers}."
    return Fault("invented", detail, tuple(("nuggets", n) for n in lost))


def standing(value: Nuggets, sources: Sequence[str]) -> list[Row]:
    """Return the nuggets whose numbers the sources hold, each once; at least one is vital."""
    kept: dict[str, str] = {}
    for each in value.nuggets:
        if not lost_numbers(each.text, sources):
            kept.setdefault(" ".join(each.text.split()), each.importance)
    nuggets = [{"text": text, "importance": importance} for text, importance in kept.items()]
    if nuggets and "vital" not in kept.values():
        nuggets[0]["importance"] = "vital"
    return nuggets


def joined(statements: Sequence[Row]) -> str:
    """Join the statements of an answer into its text."""
    return " ".join(each["text"] for each in statements)


def _sources(batch: pa.Table, row: int) -> list[str]:
    return [joined(batch["exact"][row].as_py()), batch["text"][row].as_py()]


def _row(completion: Completion, sources: Sequence[str]) -> Row:
    if completion.value is None:
        return rejected(STAGE, completion.fault or Fault("no_nuggets", ""))
    if nuggets := standing(completion.value, sources):
        return {"nuggets": nuggets}
    return rejected(STAGE, Fault("no_nuggets", "no nugget is a fact of the exact answer"))
