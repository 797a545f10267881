"""Faithfulness: the share of an answer's claims that its evidence supports (RASRAG, A.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.algo.entailment import SENTENCE_THRESHOLD, entails
from srrag.lab.judges.claims import MAX_CLAIMS
from srrag.lab.measure.judgements import (
    Case,
    Judge,
    Judgement,
    Metric,
    incomplete,
    lines,
    numbered,
)
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "verify_claims.md")
FAITHFULNESS = Metric("faithfulness", "an answer that makes claims")


class ClaimVerdict(Answer):
    """Whether the evidence supports one claim."""

    n: Annotated[int, Field(ge=1, le=MAX_CLAIMS)]
    reason: Annotated[str, StringConstraints(max_length=200)]
    supported: bool


class ClaimVerdicts(Answer):
    """A verdict a claim."""

    verdicts: Annotated[list[ClaimVerdict], Field(max_length=MAX_CLAIMS)]


@dataclass(frozen=True, kw_only=True)
class JudgeFaithfulness(Judge):
    """One call an answer, with all its claims and all its evidence.

    A claim on which the model gives no verdict was not judged. By rules a claim is supported if
    a single piece of evidence holds `threshold` of its words. An abstention makes no claim and is
    left out; an answer that failed counts 0.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "missing", "claims", "claims_fault", "evidence")
    metrics: ClassVar[tuple[Metric, ...]] = (FAITHFULNESS,)
    schema: ClassVar[type[Answer]] = ClaimVerdicts
    max_tokens: ClassVar[int] = 2048
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt, if there are claims."""
        if not case["claims"]:
            return []
        claims = lines({"claim": claim["text"]} for claim in case["claims"])
        evidence = (
            quoted({"title": item["title"], "text": item["text"]}) for item in case["evidence"]
        )
        user = PROMPT.user(claims=claims, evidence="\n".join(evidence) or "[]")
        return [(PROMPT.system(), user)]

    def rule(self, case: Case, number: int) -> ClaimVerdicts:
        """Compare the words of each claim with those of each piece of evidence."""
        verdicts = []
        for n, claim in enumerate(case["claims"], start=1):
            found = [
                entails(
                    f"{item['title']}\n{item['text']}", claim["text"], threshold=SENTENCE_THRESHOLD
                )
                for item in case["evidence"]
            ]
            best = max(found, key=lambda e: (e.verdict == "supported", e.score), default=None)
            reason = best.reason[:200] if best else "there is no evidence"
            supported = best is not None and best.verdict == "supported"
            verdicts.append(ClaimVerdict(n=n, reason=reason, supported=supported))
        return ClaimVerdicts(verdicts=verdicts)

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Claims without a verdict."""
        return incomplete(value.verdicts, len(batch["claims"][prompt.row]))

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement a claim."""
        if case["missing"]:
            yield FAITHFULNESS.unanswered(case, "")
        if case["claims_fault"]:
            lost = Fault(case["claims_fault"], "the claims could not be split")
            yield FAITHFULNESS.failed(case, "", lost)
        said = answers[0] if answers else Completion()
        verdicts = numbered(said.value.verdicts) if said.value else {}
        for n, claim in enumerate(case["claims"], start=1):
            if found := verdicts.get(n):
                yield FAITHFULNESS.judged(case, claim["text"], found.supported, found.reason)
            else:
                fault = said.fault or Fault("incomplete", "no verdict on this claim")
                yield FAITHFULNESS.failed(case, claim["text"], fault)
