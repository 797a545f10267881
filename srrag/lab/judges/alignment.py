"""Which citations belong to which statement of an answer (rethinking-rag, Table S7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from srrag.algo.entailment import entails
from srrag.lab.judges.claims import MAX_CLAIMS
from srrag.lab.judges.evidence_support import cited
from srrag.lab.measure.judgements import Preparation, incomplete, lines, numbered
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "align_citations.md")
MAX_REFS = 24

Number = Annotated[int, Field(ge=1, le=999)]


class Refs(Answer):
    """What one statement cites, by number."""

    n: Annotated[int, Field(ge=1, le=MAX_CLAIMS)]
    refs: Annotated[list[Number], Field(max_length=MAX_REFS)]


class Alignment(Answer):
    """The citations of every statement."""

    statements: Annotated[list[Refs], Field(max_length=MAX_CLAIMS)]


@dataclass(frozen=True, kw_only=True)
class AlignCitations(Preparation):
    """Gives each claim the citations of the sentence that it was made of.

    One call an answer, which shows its sentences with the numbers of what they cite, and its
    claims; without citations for each claim they count as not known. By rules a claim has the
    citations of the sentence that it equals, or shares most words with.
    """

    reads: ClassVar[tuple[str, ...]] = ("sentences", "claims")
    fills: ClassVar[tuple[str, ...]] = ("claims", "cites_fault")
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = 1024

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt for each answer with claims that cites something."""
        system = PROMPT.system()
        return [
            Prompt(
                row,
                "align",
                system,
                PROMPT.user(
                    sentences="\n".join(map(quoted, _marked(case))),
                    statements=lines({"statement": claim["text"]} for claim in case["claims"]),
                ),
                Alignment,
                max_tokens=self.max_tokens,
            )
            for row, case in enumerate(batch.select(self.reads).to_pylist())
            if case["claims"] and cited(case)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Find the sentence of each claim by its words."""
        cases = batch.select(self.reads).to_pylist()
        answers = []
        for prompt in prompts:
            case = cases[prompt.row]
            said = _marked(case)
            found = []
            for n, claim in enumerate(case["claims"], start=1):
                best = max(said, key=lambda each: _likeness(each["sentence"], claim["text"]))
                found.append(Refs(n=n, refs=best["refs"][:MAX_REFS]))
            answers.append(Alignment(statements=found).model_dump_json())
        return answers

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Statements that were left out, and citations that the answer has not."""
        return _fault(value, batch.select(self.reads).slice(prompt.row, 1).to_pylist()[0])

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Turn numbers into ids, or say why it is not known what the claims cite."""
        cases = batch.select(self.reads).to_pylist()
        claims = [case["claims"] for case in cases]
        faults = [""] * batch.num_rows
        for prompt, completion in zip(prompts, completions, strict=True):
            row, said = prompt.row, completion.value
            if fault := completion.fault or _fault(said, cases[row]):
                faults[row] = fault.kind
                continue
            ids, refs = cited(cases[row]), numbered(said.statements)
            claims[row] = [
                claim | {"evidence_ids": [ids[r - 1] for r in dict.fromkeys(refs[n].refs)]}
                for n, claim in enumerate(claims[row], start=1)
            ]
        return self.fill(batch, claims=claims, cites_fault=faults)


def _fault(said: Alignment, case: dict[str, Any]) -> Fault | None:
    """What is wrong with an alignment."""
    if fault := incomplete(said.statements, len(case["claims"])):
        return fault
    known = len(cited(case))
    strange = [n for each in said.statements for n in each.refs if n > known]
    if not strange:
        return None
    return Fault("invalid_citation", f"The answer cites nothing numbered {min(strange)}.")


def _marked(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The sentences of an answer with numbers for what they cite."""
    numbers = {name: n for n, name in enumerate(cited(case), start=1)}
    return [
        {
            "sentence": each["text"],
            "refs": [numbers[name] for name in dict.fromkeys(each["evidence_ids"])],
        }
        for each in case["sentences"]
    ]


def _likeness(sentence: str, claim: str) -> float:
    """How much of a claim a sentence holds: 2 for the very same text."""
    return 2.0 if sentence == claim else entails(sentence, claim).score
