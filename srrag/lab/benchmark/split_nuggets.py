"""Split the exact answer into atomic facts, by which judges score answers (SR-RAG, section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.relations import NUGGET_COLUMN, NUGGETED
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import quoted
from srrag.reading.numbers import lost_numbers

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "split_nuggets.md")
STAGE = "nuggets"
MAX_NUGGETS = 12
_MAX_CHARS = 800


class Nugget(Answer):
    """A fact, and whether an answer has to state it."""

    text: Annotated[str, StringConstraints(max_length=_MAX_CHARS)]
    importance: Literal["vital", "okay"]


class Nuggets(Answer):
    """The facts of an answer, the most important first."""

    nuggets: Annotated[list[Nugget], Field(max_length=MAX_NUGGETS)]


@dataclass(frozen=True, kw_only=True)
class SplitNuggets(LLMStep):
    """Writes nuggets with one prompt a question, which sees the question and its exact answer.

    A nugget with a number that the answer lacks is retried, then dropped. If no nugget is vital,
    the first becomes vital. A question without nuggets is rejected. By rules each sentence of the
    exact answer is one vital nugget.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "exact")
    writes: ClassVar[pa.Schema] = NUGGETED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = 1024
    """Twelve facts of 40 tokens, and as much again in reserve."""

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question."""
        system = PROMPT.system(max_nuggets=MAX_NUGGETS)
        return [
            Prompt(
                row,
                STAGE,
                system,
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
            Nuggets(
                nuggets=[
                    Nugget(text=each["text"][:_MAX_CHARS], importance="vital")
                    for each in answers[prompt.row]
                ]
            ).model_dump_json()
            for prompt in prompts
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for no nugget, an empty one, or a number that the answer lacks."""
        answer = joined(batch["exact"][prompt.row].as_py())
        if not value.nuggets:
            return Fault("no_nuggets", "There is no nugget. List the facts of the answer.")
        for each in value.nuggets:
            if not _stands(each, answer):
                detail = f"This is empty or holds a number that is not in the answer: {each.text!r}"
                return Fault("invented", detail[:400])
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the nuggets whose numbers are in the answer."""
        answers = batch["exact"].to_pylist()
        made = {
            prompt.row: _row(completion, joined(answers[prompt.row]))
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        return filled(batch, NUGGET_COLUMN, made)


def joined(statements: Sequence[Row]) -> str:
    """Join the statements of an answer into its text."""
    return " ".join(each["text"] for each in statements)


def _stands(nugget: Nugget, answer: str) -> bool:
    return bool(nugget.text.strip()) and not lost_numbers(nugget.text, [answer])


def _row(completion: Completion, answer: str) -> Row:
    if completion.fault is not None:
        return rejected(STAGE, completion.fault)
    kept: dict[str, Nugget] = {}
    for each in completion.value.nuggets:
        if _stands(each, answer):
            kept.setdefault(" ".join(each.text.split()), each)
    if not kept:
        return rejected(STAGE, Fault("no_nuggets", "no nugget is a fact of the exact answer"))
    nuggets = [{"text": text, "importance": each.importance} for text, each in kept.items()]
    if all(each["importance"] == "okay" for each in nuggets):
        nuggets[0]["importance"] = "vital"
    return {"nuggets": nuggets}
