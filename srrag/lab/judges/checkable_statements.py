"""Which statements of an answer say something that can be checked (rethinking-rag, Table S6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.algo.entailment import content_stems
from srrag.lab.judges.judge_statements import MarkStatements
from srrag.lab.measure.judgements import Case
from srrag.llm.completion import Fault, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "mark_distinctive.md")
_REMARK = re.compile(
    r"\b(?:quoted here|th(?:is|ese) (?:evidence|passages?|documents?)|evidence (?:found|given))\b",
    re.IGNORECASE,
)
"""How a text speaks of the evidence that it was written from."""


@dataclass(frozen=True, kw_only=True)
class MarkDistinctive(MarkStatements):
    """Marks the claims that only repeat the question, or say nothing that is true or false.

    Without a mark on each the claims of the answer are not known. By rules a claim is distinctive
    if it has a content word that the question lacks, and does not speak of the evidence that was
    given.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "claims", "claims_fault")
    fills: ClassVar[tuple[str, ...]] = ("claims", "claims_fault")
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    prompt_file: ClassVar[PromptFile] = PROMPT

    def statements(self, case: Case) -> list[str]:
        """The claims of the answer."""
        return [claim["text"] for claim in case["claims"]]

    def shown(self, case: Case) -> Mapping[str, str]:
        """The question."""
        return {"question": quoted(case["text"])}

    def rule(self, case: Case, n: int, statement: str) -> bool:
        """Look for words that the question does not hold, and for remarks on the evidence."""
        new = set(content_stems(statement)) - set(content_stems(case["text"]))
        return bool(new) and not _REMARK.search(statement)

    def take(self, batch: pa.Table, marks: Mapping[int, list[bool] | Fault]) -> pa.Table:
        """Mark the claims, or say why it is not known which to judge."""
        claims: list[Any] = batch["claims"].to_pylist()
        faults: list[str] = batch["claims_fault"].to_pylist()
        for row, marked in marks.items():
            if isinstance(marked, Fault):
                claims[row], faults[row] = [], marked.kind
                continue
            claims[row] = [
                claim | {"distinctive": distinctive}
                for claim, distinctive in zip(claims[row], marked, strict=True)
            ]
        return self.fill(batch, claims=claims, claims_fault=faults)
