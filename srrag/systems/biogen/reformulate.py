"""Three paraphrases of a question, each searched for by itself (BioGen, section 5, Listing 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import StringConstraints

from srrag.core.rows import filled, live, rejected
from srrag.core.schema import REJECT
from srrag.core.step import Function, LLMStep, Place
from srrag.core.units import open_units
from srrag.index.opened import open_sparse
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced, quoted
from srrag.reading.abbreviations import read_abbreviations
from srrag.reading.numbers import lost_numbers
from srrag.systems.biogen.reword_rules import Rewording

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "reformulate.md")
MAX_QUESTION_CHARS = 400
MAX_TOKENS = 512
"""Three questions of 60 tokens, and as much again in reserve."""

Question = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUESTION_CHARS)
]


class Reformulations(Answer):
    """Exactly three versions."""

    clinical: Question
    patient: Question
    aspect: Question

    def versions(self) -> list[str]:
        """All three in order."""
        return [self.clinical, self.patient, self.aspect]

    def distinct(self, question: str) -> list[str]:
        """The versions in order, without repetitions of each other or of words of the question."""
        asked = _plain(question)
        found: dict[str, str] = {}
        for version in self.versions():
            if _plain(version) not in asked:
                found.setdefault(_plain(version), version)
        return list(found.values())


@dataclass(frozen=True, kw_only=True)
class Reformulate(LLMStep):
    """Reword `text` in up to three ways, to search for in addition to it.

    A version that repeats the question or another version is left out. A version with a number that
    occurs neither in the question nor in its context is requested once more and then dropped.
    `context` also shows topic and narrative to the model, unlike the submitted runs (section 5). A
    faulty answer rejects its row. `reformulation_model` says who wrote the versions, "" for nobody.

    The engine `rules` cannot reword, and writes no version unless `by_rules`: then versions come
    from the corpus's own words (see `reword_rules`), by the indexes that the last fields name.
    """

    version: ClassVar[int] = 2

    context: bool = False
    by_rules: bool = False
    max_tokens: int = MAX_TOKENS
    index: str = "sparse"
    units: str = "units"
    abbreviations: str = "abbreviations"

    reads: ClassVar[tuple[str, ...]] = ("text", "topic", "narrative")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("reformulations", pa.list_(pa.string()), nullable=False),
            pa.field("reformulation_model", pa.string(), nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True

    @property
    def off(self) -> bool:
        """Whether there is no version: the engine is `rules` and `by_rules` is off."""
        return isinstance(self.engine, Rules) and not self.by_rules

    @property
    def _rewords(self) -> bool:
        """Whether the corpus's own words make the versions."""
        return isinstance(self.engine, Rules) and self.by_rules

    def needs(self) -> tuple[str, ...]:
        """The indexes that rules reword by; a model needs none."""
        return (self.index, self.units, self.abbreviations) if self._rewords else ()

    def open(self, at: Place) -> Function:
        """Bind the engine, or map the indexes that rules reword by."""
        if not self._rewords:
            return super().open(at)
        reword = Rewording(
            open_sparse(at.artifact(self.index)),
            open_units(at, self.units),
            read_abbreviations(at.artifact(self.abbreviations)),
        )

        def run(batch: pa.Table) -> pa.Table:
            made = {
                number: {
                    "reformulations": reword(row["text"]),
                    "reformulation_model": self.engine.name,
                }
                for number, row in live(batch, ("text",))
            }
            return filled(batch, self.writes, made)

        return run

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a question."""
        return [
            Prompt(
                number,
                "reformulate",
                *render(*self._shown(row)),
                Reformulations,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The question as it is (its beginning, where it is long), which counts as no version."""
        texts = batch["text"].to_pylist()
        answers = []
        for prompt in prompts:
            same = _beginning(texts[prompt.row])
            versions = Reformulations(clinical=same, patient=same, aspect=same)
            answers.append(versions.model_dump_json())
        return answers

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Fault `invented_number`: a number that the model was not given."""
        (row,) = batch.select(self.reads).slice(prompt.row, 1).to_pylist()
        numbers = lost_numbers(" ".join(value.versions()), self._shown(row))
        if not numbers:
            return None
        return Fault(
            "invented_number",
            f"The versions hold numbers that the question does not: {', '.join(numbers[:5])}. "
            f"Keep the meaning of the question, and add nothing.",
        )

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the versions that are new and add no number."""
        rows = dict(live(batch, self.reads))
        made = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            if answer.fault is not None:
                made[prompt.row] = rejected("reformulate", answer.fault)
                continue
            row = rows[prompt.row]
            given = " ".join(self._shown(row))
            versions = answer.value.distinct(row["text"])
            kept = [version for version in versions if not lost_numbers(version, [given])]
            model = "" if self.off else self.engine.name
            made[prompt.row] = {"reformulations": kept, "reformulation_model": model}
        return filled(batch, self.writes, made)

    def _shown(self, row: dict[str, str]) -> tuple[str, str, str]:
        """The parts of a question that the model sees."""
        return (row["text"], *((row["topic"], row["narrative"]) if self.context else ("", "")))


def render(question: str, topic: str = "", narrative: str = "") -> tuple[str, str]:
    """System and user text; the submitted runs gave neither topic nor narrative."""
    user = PROMPT.user(
        question=fenced("question", question), topic=quoted(topic), narrative=quoted(narrative)
    )
    return PROMPT.system(), user


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _beginning(text: str) -> str:
    """The first words that fit."""
    words = " ".join(text.split())
    if len(words) <= MAX_QUESTION_CHARS:
        return words
    return words[:MAX_QUESTION_CHARS].rpartition(" ")[0] or words[:MAX_QUESTION_CHARS]
