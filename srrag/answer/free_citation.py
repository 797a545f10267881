"""For evaluation alone: an answer that may also cite sources which the model names itself.

A served answer cannot cite anything outside the evidence. This step lets a model do so, to count
how often it would: the study of RAG in medicine calls these self-generated references
(rethinking-rag, section 2.3).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.answer.check_answer import CheckAnswer
from srrag.answer.cited import ChosenAnswer, CitedAnswer, citation_fault, show
from srrag.answer.compose import ComposeAnswer
from srrag.answer.sentences import plain
from srrag.llm.completion import Fault, Prompt, PromptFile
from srrag.pipeline import Pipeline
from srrag.rows import Row

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "answer_freely.md")
MAX_REFERENCES = 12
HEADING = "References that were not in the evidence:"


class FreeAnswer(CitedAnswer):
    """A cited answer and the sources that it names itself, numbered on behind the evidence."""

    references: Annotated[
        list[Annotated[str, StringConstraints(max_length=400)]], Field(max_length=MAX_REFERENCES)
    ]


class FreeChosenAnswer(FreeAnswer, ChosenAnswer):
    """A free answer to a question with options."""


@dataclass(frozen=True, kw_only=True)
class ComposeFreely(ComposeAnswer):
    """As ComposeAnswer, but sentences may cite what the model names as a source of its own.

    `evidence_ids` holds such a citation as `own-1`, `own-2`, …, names that no evidence has, and the
    answer ends with a list of these sources. The rules quote the evidence and name no other source.
    """

    evaluation_only: bool = False
    """Has to be true: nobody should rely on what this step writes."""

    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    prompt_file: ClassVar[PromptFile] = PROMPT
    schema: ClassVar[type[CitedAnswer]] = FreeAnswer
    choice_schema: ClassVar[type[CitedAnswer]] = FreeChosenAnswer

    def __post_init__(self) -> None:
        """Raise ValueError in service, and for settings that no answer can keep."""
        if self.evaluation_only is not True:
            raise ValueError(
                "ComposeFreely cites what is not in the evidence: it is for "
                "`srrag evaluate bench=stages bench.free_citations=true` alone"
            )
        super().__post_init__()

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The quotes of ComposeAnswer, and no source beside the evidence."""
        return [
            prompt.schema(**json.loads(text), references=[]).model_dump_json()  # type: ignore[call-arg]
            for prompt, text in zip(prompts, super().baseline(batch, prompts), strict=True)
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """As ComposeAnswer, with the model's own sources behind the evidence, without a grade."""
        evidence = batch.column("evidence")[prompt.row].as_py()
        return citation_fault(value, [item["grade"] for item in evidence] + [""] * _own(value))

    def _cited(self, evidence: list[Row], cited: CitedAnswer) -> Row:
        """Keep the sources beside the evidence too, and list those that are cited."""
        own = [f"own-{n}" for n in range(1, _own(cited) + 1)]
        ids = [item["evidence_id"] for item in evidence] + own
        row = self._shown(show(cited, ids, self.uncited), cited)
        named = {name for each in row["sentences"] for name in each["evidence_ids"]}
        listed = [
            f"[{len(evidence) + n}] {plain(source)}"
            for n, (name, source) in enumerate(zip(own, cited.references, strict=True), start=1)  # type: ignore[attr-defined]
            if name in named
        ]
        answer = "\n\n".join([row["answer"], "\n".join([HEADING, *listed])])
        return row | {"answer": answer} if listed else row


def freed(pipeline: Pipeline) -> Pipeline:
    """The pipeline with free citations; raises ValueError if no step of it is ComposeAnswer."""
    answer = tuple(
        ComposeFreely(**{f.name: getattr(step, f.name) for f in fields(step)}, evaluation_only=True)
        if type(step) is ComposeAnswer
        else step
        for step in pipeline.answer
        if not isinstance(step, CheckAnswer)  # what a model cites is counted as it comes
    )
    if not any(isinstance(step, ComposeFreely) for step in answer):
        raise ValueError("pipeline: none of its steps is ComposeAnswer, which could cite freely")
    return replace(pipeline, answer=answer)


def _own(cited: CitedAnswer) -> int:
    assert isinstance(cited, FreeAnswer)
    return len(cited.references)
