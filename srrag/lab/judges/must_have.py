"""Which statements of an ideal answer an answer has to make (rethinking-rag, section 4.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.algo.entailment import THRESHOLD, entails
from srrag.lab.judges.judge_statements import MarkStatements
from srrag.lab.measure.judgements import Case
from srrag.llm.completion import Fault, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "classify_statements.md")


@dataclass(frozen=True, kw_only=True)
class ClassifyStatements(MarkStatements):
    """Makes nuggets of the statements of an ideal answer where the gold names none.

    Essential ones are vital, the others okay. By rules those in which `threshold` of the question's
    words occur are essential, and always the first. Without a mark on each the case is rejected: it
    counts as failed everywhere.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "ideal_answer", "gold_claims", "nuggets")
    fills: ClassVar[tuple[str, ...]] = ("nuggets",)
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    prompt_file: ClassVar[PromptFile] = PROMPT

    def statements(self, case: Case) -> list[str]:
        """Those of the ideal answer."""
        claims: list[str] = case["gold_claims"]
        return claims

    def shown(self, case: Case) -> Mapping[str, str]:
        """The question and the ideal answer."""
        return {"question": quoted(case["text"]), "answer": quoted(case["ideal_answer"])}

    def rule(self, case: Case, n: int, statement: str) -> bool:
        """Look for the words of the question."""
        found = entails(statement, case["text"], threshold=THRESHOLD)
        return n == 1 or found.score >= THRESHOLD

    def take(self, batch: pa.Table, marks: Mapping[int, list[bool] | Fault]) -> pa.Table:
        """Make nuggets, or reject the case."""
        claims = batch["gold_claims"].to_pylist()
        nuggets: list[Any] = batch["nuggets"].to_pylist()
        rejects: list[Any] = batch["reject"].to_pylist()
        for row, marked in marks.items():
            if isinstance(marked, Fault):
                reject = {"stage": "must_have", "reason": marked.kind, "detail": marked.detail}
                rejects[row] = rejects[row] or reject
                continue
            nuggets[row] = [
                {"text": text, "importance": "vital" if vital else "okay"}
                for text, vital in zip(claims[row], marked, strict=True)
            ]
        return self.fill(batch, nuggets=nuggets, reject=rejects)
