"""A model as the judge of support: reads each sentence beside the evidence that it still cites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from srrag.answer.check_support import CITATION, CheckSupport, citing, revised, windows_of
from srrag.answer.support_gate import JUDGED, stands_by_itself, statement
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Rules
from srrag.llm.delimit import quoted
from srrag.rows import Row, live, with_columns, with_rejects
from srrag.schema import REJECT
from srrag.step import LLMStep

SHOWN = ("title", "section", "text")
PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_support.md")

Number = Annotated[int, Field(ge=1, le=999)]


class JudgedWindow(Answer):
    """What one piece of evidence says of the sentence."""

    n: Number
    verdict: Literal["supports", "contradicts", "silent"]


class JudgedSentence(Answer):
    """The verdicts on the evidence that a sentence cites."""

    verdicts: Annotated[list[JudgedWindow], Field(max_length=64)]


@dataclass(frozen=True, kw_only=True)
class JudgeSupport(LLMStep):
    """Ask a model whether each cited window supports its sentence; drop what it does not.

    This step follows CheckSupport and revises what that left. One prompt a sentence, with the
    windows that it cites; a verbatim quote needs no judge. A citation that does not support its
    sentence is dropped, and then a sentence without citations; `support` counts these sentences and
    `unsupported` lists them. `support_asked` counts the sentences that the model read. If a verdict
    is lost, the answer stays as it was and the question is marked as degraded. By rules this step
    is off.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "text", "evidence", "answer", "sentences", "state", "choice", "answer_note",
        "support", "unsupported",
    )  # fmt: skip
    revises: ClassVar[tuple[str, ...]] = (
        "answer", "sentences", "state", "choice", "answer_note", "support", "unsupported",
    )  # fmt: skip
    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field("support_asked", pa.int32(), nullable=False), pa.field("reject", REJECT)]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True

    max_tokens: int = 256
    """Twelve verdicts of 16 tokens, and some in reserve."""

    @property
    def off(self) -> bool:
        """Rules judge in CheckSupport already."""
        return isinstance(self.engine, Rules)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render a prompt for each sentence that cites and is no verbatim quote."""
        if self.off:
            return []
        return [
            Prompt(
                number,
                f"support.{place}",
                PROMPT.system(),
                PROMPT.user(
                    sentence=quoted(statement(row["sentences"][place]["text"])),
                    num_evidence=len(cited),
                    evidence="\n".join(
                        quoted({"n": n, **{name: item[name] for name in SHOWN}})
                        for n, item in cited.items()
                    ),
                ),
                JudgedSentence,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
            for place, cited in to_judge(row).items()
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Nothing is asked of the rules."""
        return []

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Exactly one verdict for each piece of evidence that was shown."""
        (row,) = batch.select(["evidence", "sentences"]).slice(prompt.row, 1).to_pylist()
        wanted = cited_by(row["sentences"][_place(prompt)], row["evidence"])
        if sorted(each.n for each in value.verdicts) == [*wanted]:
            return None
        numbers = ", ".join(map(str, wanted))
        return Fault("invalid_citation", f"Give one verdict for each of these numbers: {numbers}.")

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Revise each answer by the verdicts on its sentences."""
        found: dict[int, dict[int, set[int]]] = {}
        faults: dict[int, list[Fault]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            if completion.fault is not None:
                faults.setdefault(prompt.row, []).append(completion.fault)
                continue
            verdicts = completion.value.verdicts
            supporting = {each.n for each in verdicts if each.verdict == "supports"}
            found.setdefault(prompt.row, {})[_place(prompt)] = supporting
        rows = batch.select(list(self.revises)).to_pylist()
        asked = [0] * len(rows)
        for number, row in live(batch, self.reads):
            if number in found and number not in faults:
                asked[number] = len(found[number])
                rows[number] = judged(row, found[number])
        schema = pa.schema([batch.schema.field(name) for name in self.revises])
        batch = with_columns(batch, pa.Table.from_pylist(rows, schema=schema))
        counts = pa.table({"support_asked": pa.array(asked, pa.int32())})
        return with_rejects(with_columns(batch, counts), "support", faults)


def cited_by(sentence: Mapping[str, Any], evidence: Sequence[Row]) -> dict[int, Row]:
    """The evidence that a sentence cites, by number from 1."""
    cited = set(sentence["evidence_ids"])
    return {n: item for n, item in enumerate(evidence, 1) if item["evidence_id"] in cited}


def to_judge(row: Mapping[str, Any]) -> dict[int, dict[int, Row]]:
    """Map the place of each sentence that needs a judge to the evidence that it cites."""
    found = {}
    for place, sentence in enumerate(row["sentences"]):
        cited = cited_by(sentence, row["evidence"])
        said = statement(sentence["text"])
        if cited and not any(
            stands_by_itself(said, each) for each in windows_of([*cited.values()])
        ):
            found[place] = cited
    return found


def judged(row: Row, supporting: Mapping[int, set[int]]) -> Row:
    """Return the columns of an answer, revised by the verdicts on the sentences at these places."""
    numbers = {item["evidence_id"]: n for n, item in enumerate(row["evidence"], 1)}
    kept: list[Row | None] = []
    dropped: list[Row] = []
    for place, said in enumerate(row["sentences"]):
        stands = supporting.get(place, set(numbers.values()))
        ids = [each for each in said["evidence_ids"] if numbers[each] in stands]
        lost = [each for each in said["evidence_ids"] if each not in ids]
        falls = bool(lost) and not ids
        kept.append(None if falls else citing(said, ids))
        if lost:
            fault = JUDGED if falls else CITATION
            dropped.append({"text": said["text"], "fault": fault, "evidence_ids": lost})
    left = [each for each in kept if each is not None]
    counts = {
        "kept_sentences": len(left),
        "kept_citations": sum(len(each["evidence_ids"]) for each in left),
    }
    same = {name: row[name] for name in CheckSupport.revises}
    return {
        **(revised(row, kept, numbers) if dropped else same),
        "support": {**row["support"], **counts},
        "unsupported": [*row["unsupported"], *dropped],
    }


def _place(prompt: Prompt) -> int:
    """The place of the sentence that a prompt is about."""
    return int(prompt.slot.partition(".")[2])
