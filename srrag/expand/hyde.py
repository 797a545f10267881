"""Hypothetical passages that keep to the question's PICOT (SR-RAG, section 4.4, Listing S1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.core.rows import filled, live, rejected
from srrag.core.schema import REJECT
from srrag.core.step import LLMStep
from srrag.expand.invented import invented_populations
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced, quoted
from srrag.reading.numbers import lost_numbers

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "hyde.md")
NUM_PASSAGES = 3
TEMPERATURE = 0.3
"""Table S3: three passages a question, at this temperature for other words."""
MAX_TOKENS = 1024
"""Eight sentences of 40 tokens are some 350, the longest that the schema allows some 800."""
MAX_SENTENCE_CHARS = 300
_MAX_SHOWN, _MAX_SHOWN_CHARS = 5, 80

Sentence = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_SENTENCE_CHARS)
]

# Sentences of the rules for each part, and for a part that the question does not name.
_BY_RULES: tuple[tuple[str, str, str], ...] = (
    ("P", "The evidence concerns {}.", "The evidence concerns the condition in general."),
    ("I", "The management of interest is {}.", "Management follows usual clinical practice."),
    ("C", "It is compared with {}.", "Where there is a comparison, its results are described."),
    ("O", "Effects on {} are reported.", "Clinically relevant outcomes are reported."),
    ("T", "The time considered is {}.", "The course over time is described."),
)


class HydePassage(Answer):
    """A passage of 5 to 8 sentences (Listing S1)."""

    sentences: Annotated[list[Sentence], Field(min_length=5, max_length=8)]

    def text(self) -> str:
        """The passage as it is encoded."""
        return " ".join(self.sentences)


@dataclass(frozen=True, kw_only=True)
class WriteHyde(LLMStep):
    """Write `num_passages` hypothetical passages about `text` that keep to its `anchors`.

    Each passage is sampled separately. Passages with numbers or populations that neither question
    nor anchors hold are asked for again; if they persist, they are kept, and `hyde_violations`
    names them (such as "2: number 48"). Equal passages count once. A faulty answer gives no
    passage; if none is left, the row is rejected.

    The engine `rules` writes no passage, so the channel finds nothing. With `by_rules` it fills one
    template of five general sentences with the anchors, if there are any: its wording is close to
    evidence and adds nothing to the question.
    """

    num_passages: int = NUM_PASSAGES
    temperature: float = TEMPERATURE
    by_rules: bool = False
    max_tokens: int = MAX_TOKENS

    reads: ClassVar[tuple[str, ...]] = ("text", "anchors")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("hyde_violations", pa.list_(pa.string()), nullable=False),
            pa.field("hyde_passages", pa.list_(pa.string()), nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True

    @property
    def off(self) -> bool:
        """Whether no passage is written: the engine is `rules` and `by_rules` is off."""
        return isinstance(self.engine, Rules) and not self.by_rules

    def __post_init__(self) -> None:
        """Raise ValueError for a number of passages or a temperature that cannot be."""
        if not 1 <= self.num_passages <= 16:
            raise ValueError(f"num_passages is {self.num_passages}: 1 to 16 work")
        if not 0.0 <= self.temperature <= 2.0:
            raise ValueError(f"temperature is {self.temperature}: it lies in [0, 2]")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt per passage; with rules one per question with anchors, or none."""
        rows: Iterator[tuple[int, dict[str, Any]]] = live(batch, self.reads)
        draws = self.num_passages
        if isinstance(self.engine, Rules):
            draws = int(self.by_rules)
            rows = ((number, row) for number, row in rows if any(row["anchors"].values()))
        return [
            Prompt(
                number,
                f"hyde{draw}",
                *rendered,
                HydePassage,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                draw=draw,
            )
            for number, row in rows
            for rendered in [render(row["text"], row["anchors"])]
            for draw in range(draws)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Five sentences with the anchors filled in."""
        anchors = batch["anchors"].to_pylist()
        return [
            HydePassage(sentences=_sentences(anchors[prompt.row])).model_dump_json()
            for prompt in prompts
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Fault `drift`: numbers or populations that only the passage holds."""
        wrong = _violations(value.text(), *_asked(batch, prompt.row))
        if not wrong:
            return None
        shown = "; ".join(each[:_MAX_SHOWN_CHARS] for each in wrong[:_MAX_SHOWN])
        return Fault(
            "drift",
            f"The passage holds what the question does not: {shown}. Write it without these.",
        )

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Collect the passages of each question, and their violations."""
        passages: dict[int, dict[str, None]] = {}
        faults: dict[int, Fault] = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            written = passages.setdefault(prompt.row, {})
            if answer.fault is not None:
                faults.setdefault(prompt.row, answer.fault)
            else:
                written[answer.value.text()] = None
        made = {
            row: self._row(batch, row, list(written)) if written else rejected("hyde", faults[row])
            for row, written in passages.items()
        }
        return filled(batch, self.writes, made)

    def _row(self, batch: pa.Table, row: int, passages: list[str]) -> dict[str, Any]:
        """The columns of one question."""
        asked = _asked(batch, row)
        violations = [
            f"{number}: {each}"
            for number, passage in enumerate(passages, 1)
            for each in _violations(passage, *asked)
        ]
        return {"hyde_violations": violations, "hyde_passages": passages}


def render(question: str, anchors: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """System and user text; `anchors` maps P, I, C, O and T to phrases, or to none."""
    given = {part: list(anchors.get(part, ())) for part in "PICOT"}
    user = PROMPT.user(question=fenced("question", question), anchors=quoted(given))
    return PROMPT.system(), user


def _asked(batch: pa.Table, row: int) -> tuple[str, str]:
    """The question, and all its anchors as one text."""
    anchors = batch["anchors"][row].as_py()
    return batch["text"][row].as_py(), " ; ".join(
        each for part in anchors.values() for each in part
    )


def _violations(passage: str, question: str, anchors: str) -> list[str]:
    given = f"{question} ; {anchors}"
    numbers = [f"number {number}" for number in lost_numbers(passage, [given])]
    return numbers + [f"population {each}" for each in invented_populations(passage, given)]


def _sentences(anchors: Mapping[str, Sequence[str]]) -> list[str]:
    """A sentence for each part of PICOT, with as many of its anchors as it holds."""
    written = []
    for part, named, general in _BY_RULES:
        fitting = ""
        for anchor in anchors[part]:
            longer = f"{fitting} and {anchor}" if fitting else anchor
            if len(named.format(longer)) <= MAX_SENTENCE_CHARS:
                fitting = longer
        written.append(named.format(fitting) if fitting else general)
    return written
