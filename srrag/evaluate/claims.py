"""The claims of an answer: the first half of faithfulness as RAGAS defines it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.completion import Answer, Completion, Prompt, PromptFile
from srrag.evaluate.judgements import CASES
from srrag.fence import quoted
from srrag.step import LLMStep

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "split_claims.md")
MAX_CLAIMS = 24
MAX_CLAIM_CHARS = 800


class Claims(Answer):
    """The claims of an answer, in their order."""

    claims: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_CLAIM_CHARS)]],
        Field(max_length=MAX_CLAIMS),
    ]


CLAIMED = pa.schema(
    [
        *(item for item in CASES if item.name != "reject"),
        pa.field("claims", pa.list_(pa.string()), nullable=False),
        pa.field("claims_fault", pa.string(), nullable=False),
        CASES.field("reject"),
    ]
)
"""Cases with the claims of their answers; `claims_fault` says why they are not known, or ""."""


@dataclass(frozen=True, kw_only=True)
class SplitClaims(LLMStep):
    """Takes each answer apart. By rules every sentence of the answer is one claim."""

    reads: ClassVar[tuple[str, ...]] = ("text", "answer", "missing", "abstained", "sentences")
    writes: ClassVar[pa.Schema] = CLAIMED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = 2048
    """24 claims of 40 tokens, and as much again in reserve."""

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt for each case whose answer claims something."""
        system = PROMPT.system(max_claims=MAX_CLAIMS)
        return [
            Prompt(
                row,
                "claims",
                system,
                PROMPT.user(question=quoted(case["text"]), answer=quoted(case["answer"])),
                Claims,
                max_tokens=self.max_tokens,
            )
            for row, case in enumerate(batch.select(self.reads).to_pylist())
            if not case["missing"] and not case["abstained"]
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The sentences of the answer, or the answer itself if it was not given in sentences."""
        sentences, answers = batch["sentences"].to_pylist(), batch["answer"].to_pylist()
        found = []
        for prompt in prompts:
            texts = [each["text"] for each in sentences[prompt.row]] or [answers[prompt.row]]
            claims = [text[:MAX_CLAIM_CHARS] for text in texts if text.strip()][:MAX_CLAIMS]
            found.append(Claims(claims=claims).model_dump_json())
        return found

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Add the claims; a fault is kept for those who count what could not be judged."""
        claims: list[list[str]] = [[] for _ in range(batch.num_rows)]
        faults = [""] * batch.num_rows
        for prompt, completion in zip(prompts, completions, strict=True):
            if completion.fault:
                faults[prompt.row] = completion.fault.kind
            else:
                claims[prompt.row] = [c.strip() for c in completion.value.claims if c.strip()]
        added = {
            "claims": pa.array(claims, CLAIMED.field("claims").type),
            "claims_fault": pa.array(faults, pa.string()),
        }
        columns = [added[n] if n in added else batch[n] for n in CLAIMED.names]
        return pa.table(columns, schema=CLAIMED)
