"""Three paraphrases of a question, each searched for by itself (BioGen, section 5, Listing 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.schema import REJECT
from srrag.core.step import Function, LLMStep, Place
from srrag.core.units import open_units
from srrag.index.opened import open_sparse
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile, Rules, fenced, quoted
from srrag.llm.fields import Text, most_tokens
from srrag.reading.concepts import read_abbreviations
from srrag.systems.biogen.reword_rules import Rewording


class Reformulations(Answer):
    """Exactly three versions."""

    example: ClassVar[dict[str, Any] | None] = {
        "clinical": "Is topical fluoride varnish efficacious in the primary prevention of caries "
        "in the deciduous dentition?",
        "patient": "Will painting my toddler's teeth with fluoride stop holes?",
        "aspect": "How well does fluoride varnish work as a treatment to prevent caries in "
        "children?",
    }

    clinical: Annotated[str, Text(60, "in more formal, clinical terms")]
    patient: Annotated[str, Text(60, "direct and simple, as a patient would ask")]
    aspect: Annotated[
        str,
        Text(
            60,
            "with one aspect in front: diagnosis, treatment or prognosis, or definition or cause "
            "if it asks for one",
        ),
    ]

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


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "reformulate.md", Reformulations)


@dataclass(frozen=True, kw_only=True)
class Reformulate(LLMStep):
    """Reword `text` in up to three ways, to search for in addition to it.

    A version that repeats the question or another version is left out. `context` also shows topic
    and narrative to the model, unlike the submitted runs (section 5). A faulty answer rejects its
    row. `reformulation_model` says who wrote the versions, "" for nobody.

    The engine `rules` cannot reword, and writes no version unless `by_rules`: then versions come
    from the corpus's own words (see `reword_rules`), by the indexes that the last fields name.
    """

    version: ClassVar[int] = 3

    context: bool = False
    by_rules: bool = False
    max_tokens: int = most_tokens(Reformulations)
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
                PROMPT.system(),
                PROMPT.user(
                    question=fenced("question", row["text"]),
                    context=context_of(row) if self.context else "",
                ),
                Reformulations,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The question as it is (its beginning, where it is long), which counts as no version."""
        texts = batch["text"].to_pylist()
        asked = (texts[prompt.row] for prompt in prompts)
        same = (Reformulations(clinical=text, patient=text, aspect=text) for text in asked)
        return [versions.model_dump_json() for versions in same]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the versions that are new."""
        texts = batch["text"].to_pylist()
        model = "" if self.off else self.engine.name
        made = {
            prompt.row: {
                "reformulations": answer.value.distinct(texts[prompt.row]),
                "reformulation_model": model,
            }
            if answer.fault is None
            else rejected("reformulate", answer.fault)
            for prompt, answer in zip(prompts, completions, strict=True)
        }
        return filled(batch, self.writes, made)


def context_of(row: Row) -> str:
    """Topic and narrative of a question, a line each, those that it has."""
    told = (("Topic", row["topic"]), ("Narrative", row["narrative"]))
    return "".join(f"\n{name}: {quoted(text)}" for name, text in told if text)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
