"""The statements of a text: of answers the first half of faithfulness as RAGAS defines it.

Statements of a response and of an ideal answer are made in the same way (rethinking-rag, section
4.1.1, Supplementary Table 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.algo.entailment import sentences
from srrag.lab.measure.judgements import Case, Preparation
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "split_claims.md")
MAX_CLAIMS = 24
MAX_CLAIM_CHARS = 800


class Claims(Answer):
    """The claims of an answer, in their order."""

    claims: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_CLAIM_CHARS)]],
        Field(max_length=MAX_CLAIMS),
    ]


@dataclass(frozen=True, kw_only=True)
class SplitClaims(Preparation):
    """Takes each answer apart, or each ideal answer whose gold names no nuggets (`of`).

    By rules every sentence is one claim. A fault on an answer is kept for those who count what
    could not be judged; without its gold a case is rejected, and counts as failed everywhere.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "text", "answer", "missing", "abstained", "sentences", "ideal_answer", "nuggets",
    )  # fmt: skip
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    of: Literal["answer", "ideal_answer"] = "answer"
    max_tokens: int = 2048
    """24 claims of 40 tokens, and as much again in reserve."""

    def __post_init__(self) -> None:
        """Raise ValueError for a text that there is not."""
        if self.of not in ("answer", "ideal_answer"):
            raise ValueError(f"of is {self.of!r}: it can be 'answer' or 'ideal_answer'")

    @property
    def fills(self) -> tuple[str, ...]:  # type: ignore[override]
        """The claims of the answer, or of the gold."""
        return ("claims", "claims_fault") if self.of == "answer" else ("gold_claims",)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt for each case with a text that claims something."""
        system = PROMPT.system(max_claims=MAX_CLAIMS)
        return [
            Prompt(
                row,
                "claims",
                system,
                PROMPT.user(question=quoted(case["text"]), answer=quoted(case[self.of])),
                Claims,
                max_tokens=self.max_tokens,
            )
            for row, case in enumerate(batch.select(self.reads).to_pylist())
            if self._claims(case)
        ]

    def _claims(self, case: Case) -> bool:
        if self.of == "answer":
            return not case["missing"] and not case["abstained"]
        return bool(case["ideal_answer"]) and not case["nuggets"]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The sentences of the answer, or the answer itself if it was not given in sentences."""
        cases = batch.select(self.reads).to_pylist()
        found = []
        for prompt in prompts:
            case = cases[prompt.row]
            if self.of == "answer":
                texts = [each["text"] for each in case["sentences"]] or [case["answer"]]
            else:
                texts = sentences(case["ideal_answer"])
            claims = [text[:MAX_CLAIM_CHARS] for text in texts if text.strip()][:MAX_CLAIMS]
            found.append(Claims(claims=claims).model_dump_json())
        return found

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Add the claims, or why they are not known."""
        claims: list[list[str]] = [[] for _ in range(batch.num_rows)]
        rejects: list[Any] = batch["reject"].to_pylist()
        faults = [""] * batch.num_rows
        for prompt, completion in zip(prompts, completions, strict=True):
            if fault := completion.fault:
                faults[prompt.row] = fault.kind
                reject = {"stage": "gold_claims", "reason": fault.kind, "detail": fault.detail}
                rejects[prompt.row] = rejects[prompt.row] or reject
            else:
                claims[prompt.row] = [c.strip() for c in completion.value.claims if c.strip()]
        if self.of == "ideal_answer":
            return self.fill(batch, gold_claims=claims, reject=rejects)
        stated = [
            [{"text": claim, "distinctive": True, "evidence_ids": []} for claim in each]
            for each in claims
        ]
        return self.fill(batch, claims=stated, claims_fault=faults)
