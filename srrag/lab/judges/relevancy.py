"""Answer relevancy: do the questions that an answer suits resemble the one asked (RASRAG, A.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from srrag.lab.judges.similarity import CosineMeasure, Encode
from srrag.lab.measure.judgements import Case, Judgement, Metric, Preparation
from srrag.llm.completion import Answer, Fault, PromptFile
from srrag.llm.delimit import quoted
from srrag.llm.fields import Items, Means, Text

RELEVANCY = Metric("answer_relevancy", "a question")
NUM_QUESTIONS = 3


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
        Items(NUM_QUESTIONS, "questions that the answer settles", "it settles nothing"),
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
    file: ClassVar[PromptFile] = PROMPT

    def user(self, case: Case) -> str | None:
        """The answer, if it claims something."""
        silent = case["missing"] or case["abstained"]
        return None if silent else PROMPT.user(answer=quoted(case["answer"]))

    def rule(self, case: Case) -> Guesses:
        """The first sentences of the answer."""
        texts = [each["text"] for each in case["sentences"]] or [case["answer"]]
        shown = [text for text in texts if text.strip()][:NUM_QUESTIONS]
        return Guesses(questions=shown, committal=True)

    def take(self, case: Case, said: Any, lost: str) -> dict[str, Any]:
        """The questions; none of an answer that evades."""
        guesses = said.questions[:NUM_QUESTIONS] if said and said.committal else []
        return {"guesses": guesses, "guesses_fault": lost}


@dataclass(frozen=True, kw_only=True)
class MeasureRelevancy(CosineMeasure):
    """The mean cosine of the guessed questions with the one asked (equation 10), 0 without any."""

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "missing", "abstained", "guesses", "guesses_fault",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (RELEVANCY,)

    def cosines(self, case: Case, encode: Encode) -> Iterable[Judgement]:
        """A judgement a question."""
        if lost := case["guesses_fault"]:
            yield RELEVANCY.failed(case, "", Fault(lost, "no questions could be guessed"))
        elif case["missing"]:
            yield RELEVANCY.unanswered(case, "")
        elif case["abstained"]:  # nobody was asked for questions that it suits
            yield RELEVANCY.settled(case, "", 0.0, "abstained")
        else:
            asked, *guessed = encode([case["text"], *case["guesses"]], role="query")
            value = float(np.clip(np.mean(guessed @ asked), 0, 1)) if guessed else 0.0
            yield RELEVANCY.judged(case, "", value, f"{len(guessed)} questions")
