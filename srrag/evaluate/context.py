"""Was the needed evidence retrieved: precision, miss and coverage of must-have statements.

As experts were asked in the study of RAG in medicine (section 2.2 of rethinking-rag): a passage is
relevant if it supports a statement that the answer has to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from srrag.completion import Answer, Completion, PromptFile
from srrag.evaluate.entailment import THRESHOLD, entails
from srrag.evaluate.judgements import REASON, Case, Judge, Judgement, Metric
from srrag.fence import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_evidence.md")
_NEEDS = "vital nuggets in the gold"

COVERAGE = Metric("evidence_coverage", _NEEDS)
PRECISION = Metric("evidence_precision", f"{_NEEDS}, and evidence")
MISS = Metric("evidence_miss", _NEEDS, "lower")
CONTEXT_PRECISION = Metric("context_precision", _NEEDS)

Number = Annotated[int, Field(ge=1, le=64)]


class Support(Answer):
    """The passages that support a statement."""

    reason: Annotated[str, REASON]
    supported_by: Annotated[list[Number], Field(max_length=64)]


@dataclass(frozen=True, kw_only=True)
class JudgeEvidence(Judge):
    """One call a must-have statement, which sees the `depth` best pieces of evidence.

    `evidence_coverage` is the share of statements that any supports (context recall),
    `evidence_precision` the share of the evidence that supports any, `evidence_miss` 1 where none
    does, and `context_precision` the average precision of their order (RASRAG, equation 6).
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text", "evidence", "nuggets")
    metrics: ClassVar[tuple[Metric, ...]] = (COVERAGE, PRECISION, MISS, CONTEXT_PRECISION)
    schema: ClassVar[type[Answer]] = Support
    max_tokens: ClassVar[int] = 384
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    depth: int = 16
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        """Raise ValueError for a depth that no answer can name."""
        if not 1 <= self.depth <= 64:
            raise ValueError(f"depth is {self.depth}: 1 to 64 work")

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """A prompt a vital nugget, if there is evidence."""
        evidence = case["evidence"][: self.depth]
        if not evidence:
            return []
        lines = [
            quoted({"n": n, "title": item["title"], "text": item["text"]})
            for n, item in enumerate(evidence, start=1)
        ]
        shared = {"question": quoted(case["text"]), "passages": "\n".join(lines)}
        system = PROMPT.system()
        return [(system, PROMPT.user(**shared, statement=quoted(s))) for s in _must_have(case)]

    def rule(self, case: Case, number: int) -> Support:
        """Compare the words of the statement with those of each piece of evidence."""
        statement = _must_have(case)[number]
        supported = [
            n
            for n, item in enumerate(case["evidence"][: self.depth], start=1)
            if entails(item["text"], statement, case["text"], self.threshold).verdict == "supported"
        ]
        reason = f"passages with {self.threshold:.0%} of the statement's words"
        return Support(reason=reason, supported_by=supported)

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Judgements of the statements, of the evidence, and of the question."""
        statements = _must_have(case)
        evidence = case["evidence"][: self.depth]
        if not statements:
            return
        useful: set[int] = set()
        lost = next((answer for answer in answers if answer.fault), None)
        for number, statement in enumerate(statements):
            if not evidence:
                yield COVERAGE.judged(case, statement, 0.0, "there is no evidence")
            elif answers[number].fault:
                yield COVERAGE.failed(case, statement, answers[number])
            else:
                found = answers[number].value
                inside = {n for n in found.supported_by if n <= len(evidence)}
                useful |= inside
                yield COVERAGE.judged(case, statement, bool(inside), found.reason)
        for n, item in enumerate(evidence, start=1):
            # What no verdict names may be what a lost one would have named.
            if lost is None or n in useful:
                yield PRECISION.judged(case, item["evidence_id"], n in useful, "")
            else:
                yield PRECISION.failed(case, item["evidence_id"], lost)
        if lost is None or useful:
            yield MISS.judged(case, "", not useful, f"{len(useful)} of {len(evidence)} support")
        else:
            yield MISS.failed(case, "", lost)
        if lost is None:
            yield CONTEXT_PRECISION.judged(case, "", average_precision(useful), "")
        else:
            yield CONTEXT_PRECISION.failed(case, "", lost)


def average_precision(useful: set[int]) -> float:
    """Mean of precision@n over the ranks n, from 1, of what is useful; 0 if nothing is."""
    ranks = sorted(useful)
    return sum(hits / rank for hits, rank in enumerate(ranks, start=1)) / max(1, len(ranks))


def _must_have(case: Case) -> list[str]:
    return [nugget["text"] for nugget in case["nuggets"] if nugget["importance"] == "vital"]
