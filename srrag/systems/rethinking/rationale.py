"""The reasoning of a first answer as the query (Rethinking RAG in medicine, section 4.2)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, ClassVar, Literal, get_args

import pyarrow as pa

from srrag.core.rows import filled, live, rejected
from srrag.core.schema import REJECT
from srrag.core.step import LLMStep
from srrag.llm.completion import (
    Answer,
    Completion,
    Fault,
    Prompt,
    PromptFile,
    Rules,
    fenced,
    quoted,
)
from srrag.llm.fields import Items, Text, most_tokens

MAX_STEPS = 8
MAX_STEP_CHARS = 300
MAX_OPTIONS = len(ascii_uppercase)

Query = Literal["rationale", "both", "fused"]


class Rationale(Answer):
    """Reasoning in steps, then one answer: the label of an option, or a sentence."""

    example: ClassVar[dict[str, Any] | None] = {
        "steps": [
            "The episodic wheezing with a rise of FEV1 after salbutamol is reversible obstruction.",
            "Reversible airflow obstruction points to asthma.",
        ],
        "answer": "B",
    }

    steps: Annotated[
        list[Annotated[str, Text(45, "one sentence by the medical terms of diseases and drugs")]],
        Items(MAX_STEPS, "from the findings that matter to the answer"),
    ]
    answer: Annotated[
        str,
        Text(40, "of options the label of a single one, else one sentence", "it cannot be told"),
    ]

    def query(self, options: Sequence[str]) -> str:
        """What is searched for in place of the question: the whole response, with the option."""
        labelled = dict(zip(ascii_uppercase, options, strict=False))
        return " ".join(filter(None, [*self.steps, labelled.get(self.answer, self.answer)]))


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "rationale.md", Rationale)


@dataclass(frozen=True, kw_only=True)
class WriteRationale(LLMStep):
    """Reason about `text` and its `options`; `rationale` is then searched for.

    `rationale_queries` holds the texts to search for, by `query`: `rationale` is the response
    alone, reasoning and answer (the paper), `both` the question and the reasoning as one text,
    `fused` the two apart, for SearchBranches to fuse. With the engine `rules` the rationale is the
    question itself, up to 2,400 characters, and `rationale_model` is "rules". A question with more
    options than labels (`too_many_options`) or with a faulty answer also becomes its own rationale,
    with an empty `rationale_model`; its row is rejected, and a pipeline continues with it.
    """

    query: Query = "fused"
    max_tokens: int = most_tokens(Rationale)

    reads: ClassVar[tuple[str, ...]] = ("text", "options")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("rationale", pa.string(), nullable=False),
            pa.field("rationale_model", pa.string(), nullable=False),
            pa.field("rationale_queries", pa.list_(pa.string()), nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 5

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown query."""
        if self.query not in get_args(Query):
            raise ValueError(f"query is {self.query!r}: one of {', '.join(get_args(Query))}")

    @property
    def off(self) -> bool:
        """Whether the question itself is the rationale, because rules do not reason."""
        return isinstance(self.engine, Rules)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a question whose options can be labelled."""
        return [
            Prompt(
                number,
                "rationale",
                *render(row["text"], row["options"]),
                Rationale,
                max_tokens=self.max_tokens,
                question=row["text"],
                options=tuple(row["options"]),
            )
            for number, row in live(batch, self.reads)
            if len(row["options"]) <= MAX_OPTIONS
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The question itself, in as many steps as its length takes."""
        texts = batch["text"].to_pylist()
        steps = (_pieces(texts[prompt.row]) for prompt in prompts)
        return [Rationale(steps=each, answer="").model_dump_json() for each in steps]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Join the steps of each question."""
        made = {
            number: rejected("rationale", _many_options(len(row["options"]))) | _asked(row["text"])
            for number, row in live(batch, self.reads)
            if len(row["options"]) > MAX_OPTIONS
        }
        texts, options = (batch[name].to_pylist() for name in ("text", "options"))
        for prompt, answer in zip(prompts, completions, strict=True):
            if answer.fault is not None:
                made[prompt.row] = rejected("rationale", answer.fault) | _asked(texts[prompt.row])
            else:
                reasoning = answer.value.query(options[prompt.row])
                made[prompt.row] = {
                    "rationale": reasoning,
                    "rationale_model": self.engine.name,
                    "rationale_queries": self._queries(texts[prompt.row], reasoning),
                }
        return filled(batch, self.writes, made)

    def _queries(self, question: str, reasoning: str) -> list[str]:
        """The texts to search for."""
        if self.query == "both" and not self.off:
            return [f"{question} {reasoning}"]
        return [question, reasoning] if self.query == "fused" else [reasoning]


def render(question: str, options: Sequence[str] = ()) -> tuple[str, str]:
    """System and user text; options are labelled A, B, …; raises ValueError above 26."""
    if len(options) > MAX_OPTIONS:
        raise ValueError(_many_options(len(options)).detail)
    labelled = dict(zip(ascii_uppercase, options, strict=False))
    told = f"\nOptions: {quoted(labelled)}" if options else ""
    return PROMPT.system(), PROMPT.user(question=fenced("question", question), options=told)


def _asked(text: str) -> dict[str, Any]:
    """The question in place of its rationale, which nobody wrote."""
    words = " ".join(_pieces(text))
    return {"rationale": words, "rationale_model": "", "rationale_queries": [words]}


def _pieces(text: str) -> list[str]:
    """The words of a text as steps, as far as they fit."""
    words = " ".join(text.split())
    return textwrap.wrap(words, MAX_STEP_CHARS, break_on_hyphens=False)[:MAX_STEPS]


def _many_options(count: int) -> Fault:
    detail = f"a question with {count} options: at most {MAX_OPTIONS} can be labelled"
    return Fault("too_many_options", detail)
