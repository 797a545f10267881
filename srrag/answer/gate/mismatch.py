"""The notice that evidence is about other people or another intervention than was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.algo.grounding import ground
from srrag.answer.gate.mismatch_rules import Source, rule_mismatches
from srrag.core.rows import Row, live, with_columns, with_rejects
from srrag.core.schema import MISMATCHES, REJECT
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import inert, quoted
from srrag.reading.prose import plain

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "notice_mismatch.md")
UNCHECKED = "Whether the evidence is about the people and interventions asked about is not known."
"""The notice where the model's answer is a fault."""

MAX_MISMATCHES = 24
"""Two parts of each of the twelve windows (Table S3)."""
MAX_PHRASE_CHARS = 160
MAX_SHOWN = 3
"""Groups of evidence that a notice names; the rest are in the column."""

Number = Annotated[int, Field(ge=1, le=999)]
Phrase = Annotated[str, StringConstraints(max_length=MAX_PHRASE_CHARS)]
PARTS = ("P", "I")


class Mismatch(Answer):
    """A piece of evidence that is about something else, in the words of both sides."""

    n: Number
    part: Literal["P", "I"]
    asked: Phrase
    found: Annotated[str, StringConstraints(min_length=1, max_length=MAX_PHRASE_CHARS)]


class Mismatches(Answer):
    """All mismatches of a block of evidence."""

    mismatches: Annotated[list[Mismatch], Field(max_length=MAX_MISMATCHES)]


@dataclass(frozen=True, kw_only=True)
class NoticeMismatch(LLMStep):
    """Add `mismatches` of `evidence` with the question, and a `notice` of them for the reader.

    One prompt a question. A mismatch counts only if question and evidence hold its words. The
    notice has a sentence for the population and one for the intervention, names only the `top`
    pieces of evidence, and is "" without mismatches. If the model's answer is faulty, the notice
    says that nothing is known, and the row is rejected.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "anchors", "evidence")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("mismatches", MISMATCHES, nullable=False),
            pa.field("notice", pa.string(), nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 3

    max_tokens: int = 1024
    """Twelve mismatches of 60 tokens, and some in reserve."""
    top: int = 6

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question that has evidence."""
        return [
            Prompt(
                row,
                "mismatch",
                PROMPT.system(),
                PROMPT.user(
                    question=quoted(question["text"]),
                    anchors=quoted(question["anchors"]),
                    num_evidence=len(question["evidence"]),
                    evidence="\n".join(
                        quoted({"n": n, "title": item["title"], "text": item["text"]})
                        for n, item in enumerate(question["evidence"], 1)
                    ),
                ),
                Mismatches,
                max_tokens=self.max_tokens,
            )
            for row, question in live(batch, self.reads)
            if question["evidence"]
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Contradictions that the rules are sure of."""
        questions = dict(live(batch, self.reads))
        answers = []
        for prompt in prompts:
            question = questions[prompt.row]
            sources = [
                Source(item["doc_id"], inert(item["title"]), inert(item["text"]))
                for item in question["evidence"]
            ]
            found = [
                Mismatch(n=each.number, part=each.part, asked=each.asked, found=each.found)
                for each in rule_mismatches(question["text"], question["anchors"], sources)
                if max(len(each.asked), len(each.found)) <= MAX_PHRASE_CHARS
            ]
            answers.append(Mismatches(mismatches=found[:MAX_MISMATCHES]).model_dump_json())
        return answers

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Evidence that was not given, and words that are nowhere."""
        question = batch.select(["text", "evidence"]).slice(prompt.row, 1).to_pylist()[0]
        for each in value.mismatches:
            if each.n > len(question["evidence"]):
                detail = f"There is no evidence {each.n}: {len(question['evidence'])} were given."
                return Fault("invalid_citation", detail)
            if not _holds(each, question):
                detail = (
                    f"{each.asked!r} is not in the question, or {each.found!r} not in evidence "
                    f"{each.n}. Copy exactly."
                )
                return Fault("ungrounded", detail)
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the mismatches whose words are found, by the ids of their evidence."""
        questions = dict(live(batch, self.reads))
        found: list[list[Row]] = [[] for _ in range(batch.num_rows)]
        notices = [""] * batch.num_rows
        faults: dict[int, list[Fault]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            if completion.fault is not None:
                notices[prompt.row] = UNCHECKED
                faults[prompt.row] = [completion.fault]
                continue
            question = questions[prompt.row]
            kept = [each for each in completion.value.mismatches if _holds(each, question)]
            found[prompt.row] = [_row(each, question["evidence"]) for each in kept]
            notices[prompt.row] = notice(kept, self.top)
        columns = {"mismatches": pa.array(found, MISMATCHES), "notice": pa.array(notices)}
        return with_rejects(with_columns(batch, pa.table(columns)), "mismatch", faults)


def _holds(mismatch: Mismatch, question: Mapping[str, Any]) -> bool:
    """Whether question and evidence hold the words of a mismatch, as a prompt shows them."""
    if mismatch.n > len(question["evidence"]):
        return False
    item = question["evidence"][mismatch.n - 1]
    asked = not mismatch.asked or ground(mismatch.asked, inert(question["text"]))
    return bool(asked) and any(ground(mismatch.found, inert(item[k])) for k in ("title", "text"))


def _row(mismatch: Mismatch, evidence: Sequence[Row]) -> Row:
    return {
        "evidence_id": evidence[mismatch.n - 1]["evidence_id"],
        "part": mismatch.part,
        "asked": plain(mismatch.asked),
        "found": plain(mismatch.found),
    }


def notice(mismatches: Sequence[Mismatch], top: int) -> str:
    """A sentence for each part in which one of the `top` pieces of evidence differs."""
    sentences = []
    for part in PARTS:
        differing = [each for each in mismatches if each.part == part and each.n <= top]
        groups: dict[str, set[int]] = {}
        for each in differing:
            groups.setdefault(plain(each.found), set()).add(each.n)
        if not groups:
            continue
        told = [
            f"{_list(numbers)} of “{found}”" for found, numbers in [*groups.items()][:MAX_SHOWN]
        ]
        told += ["others of more"] if len(groups) > MAX_SHOWN else []
        asked = dict.fromkeys(f"“{plain(each.asked)}”" for each in differing if each.asked)
        lead = (
            f"The question asks about {' and '.join(asked)}, but"
            if asked
            else "Other than the question,"
        )
        sentences.append(f"{lead} evidence {', '.join(told)}.")
    return " ".join(sentences)


def _list(numbers: Collection[int]) -> str:
    first, *rest = map(str, sorted(numbers))
    if not rest:
        return f"{first} speaks"
    return f"{', '.join([first, *rest[:-1]])} and {rest[-1]} speak"
