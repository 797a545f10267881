"""The answer to a question with options: reasons, one option or none, and its evidence."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from srrag.answer.select.candidates import passage_of
from srrag.answer.select.quotes import sentence_weights_fitted
from srrag.answer.write.choose_rules import choose
from srrag.answer.write.cited import ABSTENTION, MAX_CITES, Number
from srrag.answer.write.compose import ComposeAnswer, evidence_lines
from srrag.core.provenance import Fitted
from srrag.core.rows import Row, RowStep, rejected
from srrag.core.schema import EVIDENCE, HITS, NO_CHOICE, sentence_row
from srrag.llm.completion import Answer, Fault, PromptFile, Rules, quoted
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.prose import plain

MAX_OPTIONS = len(ascii_uppercase)
MAX_STEPS = 8
MAX_STEP_CHARS = 400
NO_OPTIONS = "The question has no options."
NONE_CHOSEN = "No option was chosen."


class ChosenOption(Answer):
    """Reasons, the numbers of the evidence behind them, and the label of an option.

    Only the rules leave the label empty: as in the papers, a model settles on a single option.
    """

    example: ClassVar[dict[str, Any] | None] = {
        "steps": [
            "The airflow obstruction is reversed by salbutamol.",
            "Reversible obstruction points to asthma.",
        ],
        "citations": [2],
        "choice": "B",
    }

    steps: Annotated[
        list[Annotated[str, Text(50, "one sentence")]],
        Items(
            MAX_STEPS,
            "the reasoning, from what the question states to the option",
            "none is needed",
        ),
    ]
    citations: Annotated[
        list[Number],
        Items(MAX_CITES, "numbers of the evidence that the choice rests on", "it rests on none"),
    ]
    choice: Annotated[
        str,
        Field(max_length=1, pattern=r"^[A-Z]?$"),
        Means("the label of a single option; where nothing decides, that of the likeliest"),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "choose_option.md", ChosenOption)


@dataclass(frozen=True, kw_only=True)
class ChooseOption(RowStep):
    """Answer `text` by one of its `options`, labelled A, B, …, from `evidence`.

    The columns are those of ComposeAnswer. `choice` is the index of the option, NO_CHOICE for none,
    and then the step abstains. The answer gives the steps, then the option with its citations;
    citations outside the evidence are dropped and counted. With `evidence: ""` nothing is shown,
    and the step also writes empty `hits` and `evidence`. By rules the choice is that of
    `choose_rules`. A question with more than 26 options (`too_many_options`) and a faulty answer
    reject their rows.
    """

    version: ClassVar[int] = 7

    evidence: str = "evidence"
    max_tokens: int = most_tokens(ChosenOption)

    slot: ClassVar[str] = "choose"
    file: ClassVar[PromptFile] = PROMPT

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions of the sentence weights by which rules read yes and no from evidence."""
        reads = isinstance(self.engine, Rules) and self.evidence
        return (sentence_weights_fitted(),) if reads else ()

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question with its options, and the evidence if there is any."""
        return ("text", "options", *filter(None, (self.evidence,)))

    @property
    def writes(self) -> pa.Schema:
        """The columns of an answer."""
        if self.evidence:
            return ComposeAnswer.writes
        none = [pa.field("hits", HITS), pa.field("evidence", EVIDENCE, nullable=False)]
        return pa.schema([*none, *ComposeAnswer.writes])

    def told(self, row: Row) -> dict[str, object] | None:
        """The question, its options if they can be labelled, and the evidence."""
        if not 1 <= len(row["options"]) <= MAX_OPTIONS:
            return None
        return {
            "question": quoted(row["text"]),
            "options": quoted(labelled(row["options"])),
            "num_evidence": len(self._shown(row)),
            "evidence": "\n".join(evidence_lines(self._shown(row), {})),
        }

    def own(self, row: Row) -> dict[str, Any]:
        """The labels that there are."""
        return {
            "enums": (("ChosenOption.choice", tuple(labelled(row["options"]))),),
            "question": row["text"],
            "options": tuple(row["options"]),
        }

    def _shown(self, row: Row) -> list[Row]:
        return row[self.evidence] if self.evidence else []

    def ruled(self, rows: Sequence[Row]) -> list[ChosenOption]:
        """Choose by rules, which know nothing without evidence."""
        return [self._ruled(row) for row in rows]

    def _ruled(self, row: Row) -> ChosenOption:
        passages = [passage_of(item) for item in self._shown(row)]
        chosen = choose(row["text"], row["options"], passages)
        return ChosenOption(
            steps=textwrap.wrap(chosen.reason, MAX_STEP_CHARS)[:MAX_STEPS],
            choice="" if chosen.option == NO_CHOICE else ascii_uppercase[chosen.option],
            citations=list(chosen.cites[:MAX_CITES]),
        )

    def fault(self, value: ChosenOption, row: Row) -> Fault | None:
        """Fault: no label, or one that no option has."""
        last = ascii_uppercase[len(row["options"]) - 1]
        if "A" <= value.choice <= last:
            return None
        return Fault("no_option", f"There is no option {value.choice!r}: they are A to {last}.")

    def unasked(self, row: Row) -> Row:
        """An abstention for a question without options, a reject for one with too many."""
        if not row["options"]:
            return self._abstained(NO_OPTIONS)
        count = len(row["options"])
        detail = f"a question with {count} options: at most {MAX_OPTIONS} can be labelled"
        return rejected(self.slot, Fault("too_many_options", detail))

    def _abstained(self, note: str) -> Row:
        blank = {"answer": ABSTENTION, "state": "not", "choice": NO_CHOICE}
        return {**blank, "answer_note": note, "model": self.engine.name}

    def columns(self, value: ChosenOption, row: Row) -> Row:
        """The answer that a choice is."""
        index = ascii_uppercase.find(value.choice) if value.choice else NO_CHOICE
        steps = [plain(step) for step in value.steps]
        if not 0 <= index < len(row["options"]):
            return self._abstained(" ".join([NONE_CHOSEN, *steps]))
        ids = [item["evidence_id"] for item in self._shown(row)]
        numbers = [n for n in dict.fromkeys(value.citations) if 1 <= n <= len(ids)]
        option = f"{value.choice}. {plain(row['options'][index])}"
        marks = "".join(f"[{n}]" for n in numbers)
        cited = sentence_row(option, [ids[n - 1] for n in numbers])
        return {
            "answer": "\n\n".join(filter(None, (" ".join(steps), f"{option} {marks}".strip()))),
            "state": "answered",
            "sentences": [cited],
            "choice": index,
            "model": self.engine.name,
            "invalid_citations": sum(not 1 <= n <= len(ids) for n in value.citations),
        }


def labelled(options: Sequence[str]) -> dict[str, str]:
    """The options by label."""
    return dict(zip(ascii_uppercase, options, strict=False))
