"""Answer relevancy: do the questions that an answer suits resemble the one asked (RASRAG, A.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa

from srrag.core.step import Function, Place, Step
from srrag.lab.measure.judgements import JUDGEMENTS, Metric, Preparation
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import quoted
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.model.encoder import Encoder

RELEVANCY = Metric("answer_relevancy", "a question")
MAX_QUESTIONS = 8


class Guesses(Answer):
    """Questions that an answer suits, and whether it says anything."""

    example: ClassVar[dict[str, Any] | None] = {
        "questions": [
            "Does budesonide prevent asthma attacks in adults?",
            "How many attacks does budesonide prevent in adults with asthma?",
        ],
        "committal": True,
    }

    questions: Annotated[
        list[Annotated[str, Text(30, "one question")]],
        Items(MAX_QUESTIONS, "questions that the answer settles", "it settles nothing"),
    ]
    committal: Annotated[
        bool,
        Means("false if the answer evades: it does not know, the evidence does not suffice, or it "
              "says nothing in particular"),
    ]  # fmt: skip


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "guess_questions.md", Guesses)


@dataclass(frozen=True, kw_only=True)
class GuessQuestions(Preparation):
    """Asks which questions an answer was given to, without showing the one that was asked.

    Rules write no questions: there the answer's own sentences stand for them.
    """

    reads: ClassVar[tuple[str, ...]] = ("answer", "missing", "abstained", "sentences")
    fills: ClassVar[tuple[str, ...]] = ("guesses", "guesses_fault")
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    num_questions: int = 3
    max_tokens: int = most_tokens(Guesses)

    def __post_init__(self) -> None:
        """Raise ValueError for a number of questions that no answer can hold."""
        if not 1 <= self.num_questions <= MAX_QUESTIONS:
            raise ValueError(f"num_questions is {self.num_questions}: 1 to {MAX_QUESTIONS} work")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt for each case whose answer claims something."""
        limits = {"Guesses.questions": self.num_questions}
        system = PROMPT.system(limits, num_questions=self.num_questions)
        return [
            Prompt(
                row,
                "guess",
                system,
                PROMPT.user(answer=quoted(case["answer"])),
                Guesses,
                max_tokens=self.max_tokens,
            )
            for row, case in enumerate(batch.select(self.reads).to_pylist())
            if not case["missing"] and not case["abstained"]
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The first sentences of the answer."""
        cases = batch.select(self.reads).to_pylist()
        found = []
        for prompt in prompts:
            case = cases[prompt.row]
            texts = [each["text"] for each in case["sentences"]] or [case["answer"]]
            shown = [text for text in texts if text.strip()][: self.num_questions]
            found.append(Guesses(questions=shown, committal=True).model_dump_json())
        return found

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Add the questions; a fault is kept for those who count what could not be judged."""
        guesses: list[list[str]] = [[] for _ in range(batch.num_rows)]
        faults = [""] * batch.num_rows
        for prompt, completion in zip(prompts, completions, strict=True):
            if completion.fault:
                faults[prompt.row] = completion.fault.kind
            elif completion.value.committal:
                guesses[prompt.row] = completion.value.questions[: self.num_questions]
        return self.fill(batch, guesses=guesses, guesses_fault=faults)


@dataclass(frozen=True, kw_only=True)
class MeasureRelevancy(Step):
    """The mean cosine of the guessed questions with the one asked (equation 10), 0 without any."""

    keeps_rows: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "missing", "abstained", "guesses", "guesses_fault",
    )  # fmt: skip
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]] = (RELEVANCY,)

    encoder: Encoder = field(default_factory=Encoder)

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)

        def run(batch: pa.Table) -> pa.Table:
            rows = []
            for case in batch.select(self.reads).to_pylist():
                if case["guesses_fault"]:
                    fault = Fault(case["guesses_fault"], "no questions could be guessed")
                    rows.append(RELEVANCY.failed(case, "", fault))
                    continue
                if case["missing"]:
                    rows.append(RELEVANCY.unanswered(case, ""))
                    continue
                if case["abstained"]:  # nobody was asked for questions that it suits
                    rows.append(RELEVANCY.settled(case, "", 0.0, "abstained"))
                    continue
                value = 0.0
                if case["guesses"]:
                    asked, *guessed = model.encode([case["text"], *case["guesses"]], role="query")
                    value = float(np.clip(np.mean(guessed @ asked), 0, 1))
                rows.append(RELEVANCY.judged(case, "", value, f"{len(case['guesses'])} questions"))
            return pa.Table.from_pylist(rows, schema=JUDGEMENTS)

        return run
