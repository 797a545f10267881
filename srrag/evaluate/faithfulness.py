"""Faithfulness: the share of an answer's claims that its evidence supports (RASRAG, A.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.evaluate.claims import MAX_CLAIMS
from srrag.evaluate.entailment import entails
from srrag.evaluate.judgements import Case, Judge, Judgement, Metric
from srrag.fence import quoted

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

    threshold: float = 0.6
    """As for citations."""

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt, if there are claims."""
        if not case["claims"]:
            return []
        claims = (quoted({"n": n, "claim": claim}) for n, claim in enumerate(case["claims"], 1))
        evidence = (
            quoted({"title": item["title"], "text": item["text"]}) for item in case["evidence"]
        )
        user = PROMPT.user(claims="\n".join(claims), evidence="\n".join(evidence) or "[]")
        return [(PROMPT.system(), user)]

    def rule(self, case: Case, number: int) -> ClaimVerdicts:
        """Compare the words of each claim with those of each piece of evidence."""
        verdicts = []
        for n, claim in enumerate(case["claims"], start=1):
            found = [
                entails(f"{item['title']}\n{item['text']}", claim, threshold=self.threshold)
                for item in case["evidence"]
            ]
            best = max(found, key=lambda e: (e.verdict == "supported", e.score), default=None)
            reason = best.reason[:200] if best else "there is no evidence"
            supported = best is not None and best.verdict == "supported"
            verdicts.append(ClaimVerdict(n=n, reason=reason, supported=supported))
        return ClaimVerdicts(verdicts=verdicts)

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Claims without a verdict."""
        num_claims = len(batch["claims"][prompt.row])
        absent = sorted(set(range(1, num_claims + 1)) - {each.n for each in value.verdicts})
        if not absent:
            return None
        shown = ", ".join(map(str, absent[:5]))
        return Fault("incomplete", f"There is no verdict on claim {shown} of {num_claims}.")

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement a claim."""
        if case["missing"]:
            yield FAITHFULNESS.judged(case, "", 0.0, f"no answer: {case['missing']}")
        if case["claims_fault"]:
            lost = Completion(fault=Fault(case["claims_fault"], "the claims could not be split"))
            yield FAITHFULNESS.failed(case, "", lost)
        verdicts: dict[int, ClaimVerdict] = {}
        if answers and answers[0].value is not None:
            for verdict in answers[0].value.verdicts:
                verdicts.setdefault(verdict.n, verdict)
        for n, claim in enumerate(case["claims"], start=1):
            if n in verdicts:
                found = verdicts[n]
                yield FAITHFULNESS.judged(case, claim, found.supported, found.reason)
            else:
                fault = answers[0].fault or Fault("incomplete", "no verdict on this claim")
                yield FAITHFULNESS.failed(case, claim, Completion(fault=fault))
