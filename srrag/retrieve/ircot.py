"""One round of iterative retrieval: reflect, stop or ask on (SR-RAG, section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from srrag.core.schema import REJECT, columns
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
from srrag.llm.fields import Means, Text, most_tokens

SHOWN = pa.list_(pa.struct([pa.field(name, pa.string()) for name in ("grade", "title", "text")]))


class Reflection(Answer):
    """What the evidence says so far, whether to search on, and what for."""

    example: ClassVar[dict[str, Any] | None] = {
        "reflection": "Two trials find fewer carious surfaces with varnish in children of 2 to 5 "
        "years. Nothing is said of children with braces.",
        "state": "open",
        "next_question": "Does fluoride varnish prevent white spot lesions around braces?",
    }

    reflection: Annotated[
        str,
        Text(
            90,
            "two to four sentences from evidence and notes alone: what they say to the question, "
            "which of population, intervention, comparator, outcome and time they cover, what is "
            "still open",
            "there is no evidence",
        ),
    ]
    state: Annotated[
        Literal["answered", "open", "hopeless"],
        Means(
            "how the question stands",
            {
                "answered": "the evidence and your notes suffice to answer it",
                "open": "they do not, and another search may find what is missing",
                "hopeless": "they do not, and no search is likely to",
            },
        ),
    ]
    next_question: Annotated[
        str,
        Text(
            35,
            "the most important gap as a question that can be understood by itself, in the words "
            "of papers, and differs from those asked before",
            'the state is not "open"',
        ),
    ]

    def asks(self) -> str:
        """The next question, "" if the rounds end here."""
        return self.next_question if self.state == "open" else ""


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "ircot.md", Reflection)


@dataclass(frozen=True, kw_only=True)
class Reflect(LLMStep):
    """Judge the evidence `shown` after the `rounds` so far, and write the next question or none.

    A faulty answer rejects its row. Rules do not reflect: they find no bridge from one fact to the
    next, so with them the rounds end.
    """

    max_tokens: int = most_tokens(Reflection)

    reads: ClassVar[tuple[str, ...]] = ("text", "rounds", "shown")
    writes: ClassVar[pa.Schema] = pa.schema(
        columns("reflection sufficient:bool next_question", pa.field("reject", REJECT))
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 4

    @property
    def off(self) -> bool:
        """Whether this step makes no call."""
        return isinstance(self.engine, Rules)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt per question."""
        found = []
        for row, question in enumerate(batch.select(self.reads).to_pylist()):
            notes = [(each["question"], each["reflection"]) for each in question["rounds"]]
            system, user = render(question["text"], notes, question["shown"])
            most = self.max_tokens
            found.append(Prompt(row, "reflect", system, user, Reflection, max_tokens=most))
        return found

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Nothing more to search for."""
        enough = Reflection(reflection="", state="answered", next_question="")
        return [enough.model_dump_json()] * len(prompts)

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Fault if the answer repeats a search, or leaves the question open but asks nothing."""
        if value.state != "open":
            return None
        if not value.next_question:
            return Fault("no_question", "The question is open, yet you ask nothing more.")
        rounds = batch["rounds"][prompt.row].as_py()
        if asked_before(value.next_question, [each["question"] for each in rounds]):
            return Fault("repeated", "That question was searched for before. Ask another, or stop.")
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Add the reflection; a repeated question ends the rounds."""
        rounds = batch["rounds"].to_pylist()
        rows = []
        for before, completion in zip(rounds, completions, strict=True):
            if fault := completion.fault:
                reject = {"stage": "reflect", "reason": fault.kind, "detail": fault.detail}
                rows.append(
                    {"reflection": "", "sufficient": False, "next_question": "", "reject": reject}
                )
                continue
            value: Reflection = completion.value
            asks = value.asks()
            if asked_before(asks, [each["question"] for each in before]):
                asks = ""
            rows.append(
                {
                    "reflection": value.reflection,
                    "sufficient": value.state == "answered",
                    "next_question": asks,
                    "reject": None,
                }
            )
        added = pa.Table.from_pylist(rows, schema=self.writes)
        kept = [name for name in batch.column_names if name not in added.column_names]
        return pa.table({**{n: batch[n] for n in kept}, **{n: added[n] for n in self.writes.names}})


def asked_before(question: str, former: Sequence[str]) -> bool:
    """Whether the same words were searched before, ignoring case and white space."""
    return _plain(question) in map(_plain, former)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("?!. ")


def render(
    question: str,
    notes: Sequence[tuple[str, str]],
    evidence: Sequence[Mapping[str, Any]],
) -> tuple[str, str]:
    """System and user text.

    `notes` are the rounds as (question searched for, reflection), the last the one to reflect on,
    `evidence` has grade, title and text.
    """
    *before, (now, _) = notes
    asked = [quoted({"asked": about, "reflection": note}) for about, note in before]
    found = [
        quoted({"n": n, **{name: item[name] for name in ("grade", "title", "text")}})
        for n, item in enumerate(evidence, 1)
    ]
    user = PROMPT.user(
        question=fenced("question", question),
        num_notes=len(asked),
        notes="".join(f"{each}\n" for each in asked),
        now=quoted(now),
        num_evidence=len(found),
        evidence="\n".join(found),
    )
    return PROMPT.system(), user
