"""One round of iterative retrieval: reflect, stop or ask on (SR-RAG, section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import StringConstraints

from srrag.core.ontology import Ontology
from srrag.core.schema import REJECT
from srrag.core.step import LLMStep
from srrag.index.words import analyzer
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced, quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "ircot.md")
MAX_TOKENS = 512
"""Four sentences of 60 tokens and a question of 40."""

SHOWN = pa.list_(pa.struct([pa.field(name, pa.string()) for name in ("grade", "title", "text")]))


class Reflection(Answer):
    """What the evidence says so far, whether it suffices, and what to search for next."""

    reflection: Annotated[str, StringConstraints(strip_whitespace=True, max_length=900)]
    sufficient: bool
    next_question: Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)]

    def asks(self) -> str:
        """The next question, "" if the rounds end here."""
        return "" if self.sufficient else self.next_question


@dataclass(frozen=True, kw_only=True)
class Reflect(LLMStep):
    """Judge the evidence `shown` after the `rounds` so far, and write the next question or none.

    A faulty answer rejects its row. The engine `rules` reflects only with `by_rules`: it then
    searches for the words of the question that no evidence holds. Unlike a model, it cannot find a
    bridge from one fact to the next.
    """

    ontology: Ontology = field(default_factory=lambda: Ontology(entities=[], relations={}))
    by_rules: bool = False
    max_tokens: int = MAX_TOKENS

    reads: ClassVar[tuple[str, ...]] = ("text", "rounds", "shown")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("reflection", pa.string()),
            pa.field("sufficient", pa.bool_()),
            pa.field("next_question", pa.string()),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 2

    @property
    def off(self) -> bool:
        """Whether this step makes no call: the engine is `rules` and `by_rules` is off."""
        return isinstance(self.engine, Rules) and not self.by_rules

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt per question."""
        ontology = self.ontology.describe()
        found = []
        for row, question in enumerate(batch.select(self.reads).to_pylist()):
            notes = [(each["question"], each["reflection"]) for each in question["rounds"]]
            system, user = render(question["text"], ontology, notes, question["shown"])
            most = self.max_tokens
            found.append(Prompt(row, "reflect", system, user, Reflection, max_tokens=most))
        return found

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer by rules: the next question is the words that no evidence holds."""
        stems = analyzer()
        rows = batch.select(self.reads).to_pylist()
        answers = []
        for prompt in prompts:
            row = rows[prompt.row]
            texts = [f"{item['title']} {item['text']}" for item in row["shown"]]
            held = {stem for text in texts for stem in stems.analyze(text)}
            words = [w.strip("?!.,;:()\"'") for w in row["text"].split()]
            missing = [w for w in words if w and not held.issuperset(stems.analyze(w))]
            note = f"Not in the evidence: {', '.join(missing)}." if missing else ""
            answer = Reflection(
                reflection=(note or "The evidence holds every word of the question.")[:900],
                sufficient=not missing,
                next_question=" ".join(missing)[:300],
            )
            answers.append(answer.model_dump_json())
        return answers

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Fault if the answer repeats a search, or needs more evidence but asks nothing."""
        if value.sufficient:
            return None
        if not value.next_question:
            return Fault("no_question", "The evidence does not suffice, yet you ask nothing more.")
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
                    "sufficient": value.sufficient,
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
    ontology: str,
    notes: Sequence[tuple[str, str]],
    evidence: Sequence[Mapping[str, Any]],
) -> tuple[str, str]:
    """System and user text.

    `ontology` is the schema as lines of text, `notes` are the rounds as (question searched for,
    reflection; "" for the one to reflect on), `evidence` has grade, title and text.
    """
    asked = [quoted({"asked": about, "reflection": note}) for about, note in notes]
    found = [
        quoted({"n": n, **{name: item[name] for name in ("grade", "title", "text")}})
        for n, item in enumerate(evidence, 1)
    ]
    user = PROMPT.user(
        question=fenced("question", question),
        num_notes=len(asked),
        notes="\n".join(asked),
        num_evidence=len(found),
        evidence="\n".join(found),
    )
    return PROMPT.system(ontology=ontology), user
