"""Is what an answer says true, and on what does it rest (rethinking-rag, section 2.4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.algo.entailment import SENTENCE_THRESHOLD, entails
from srrag.lab.judges.claims import MAX_CLAIMS
from srrag.lab.judges.evidence_support import check_depth, lost_support, relevance, unknown
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

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_factuality.md")
_NEEDS = "a reference, and an answer with statements"


def _resting_on(what: str, name: str) -> Metric:
    return Metric(f"factuality_{name}", f"a statement that {what}", pooled=True)


RESPONSE = Metric("factuality_response", _NEEDS)
STATEMENTS = Metric("factuality", _NEEDS)
RELEVANT = _resting_on("cites evidence that supports a vital nugget", "cited_relevant")
IRRELEVANT = _resting_on("cites only evidence that supports no vital nugget", "cited_irrelevant")
SELF_GENERATED = _resting_on("cites only what was not in the evidence", "self_generated")
NO_REFERENCE = _resting_on("cites nothing", "no_reference")
_GROUPS = (RELEVANT, IRRELEVANT, SELF_GENERATED, NO_REFERENCE)


class FactVerdict(Answer):
    """Whether one statement is true."""

    n: Annotated[int, Field(ge=1, le=MAX_CLAIMS)]
    reason: Annotated[str, StringConstraints(max_length=200)]
    factual: bool


class FactVerdicts(Answer):
    """A verdict a statement."""

    verdicts: Annotated[list[FactVerdict], Field(max_length=MAX_CLAIMS)]


@dataclass(frozen=True, kw_only=True)
class JudgeFactuality(Judge):
    """One call an answer, with the reference and all statements that can be checked.

    `factuality_response` is the share of answers without a false statement, `factuality` the mean
    over questions of the share of true ones; then that of all statements that cite relevant
    evidence, only irrelevant evidence, only references of the model's own, or nothing. Where the
    group of a statement is not known it counts as not judged in each that it may be in. Rules
    know no medicine: for them a statement is true if reference or evidence hold `threshold` of
    its words, and the reference does not deny it.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "missing", "abstained", "evidence", "ideal_answer", "nuggets",
        "support", "claims", "claims_fault", "cites_fault",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (RESPONSE, STATEMENTS, *_GROUPS)
    schema: ClassVar[type[Answer]] = FactVerdicts
    max_tokens: ClassVar[int] = 2048
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    depth: int | None = None
    """Of FindSupport."""

    def __post_init__(self) -> None:
        """Raise ValueError for a depth that FindSupport cannot have."""
        check_depth(self.depth)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt, if there are statements and a reference."""
        claims, reference = _distinctive(case), _reference(case)
        if not claims or not reference:
            return []
        user = PROMPT.user(
            question=quoted(case["text"]),
            reference=quoted(reference),
            statements=lines({"statement": claim["text"]} for claim in claims),
        )
        return [(PROMPT.system(), user)]

    def rule(self, case: Case, number: int) -> FactVerdicts:
        """Look for the words of each statement in the reference and in each piece of evidence."""
        verdicts = []
        for n, claim in enumerate(_distinctive(case), start=1):
            factual, reason = self._stated(case, claim["text"])
            verdicts.append(FactVerdict(n=n, reason=reason, factual=factual))
        return FactVerdicts(verdicts=verdicts)

    def _stated(self, case: Case, claim: str) -> tuple[bool, str]:
        said = entails(_reference(case), claim, threshold=SENTENCE_THRESHOLD)
        if said.verdict != "neutral":
            return said.verdict == "supported", f"reference: {said.reason}"[:200]
        for n, item in enumerate(case["evidence"], start=1):
            found = entails(f"{item['title']}\n{item['text']}", claim, threshold=SENTENCE_THRESHOLD)
            if found.verdict == "supported":
                return True, f"evidence {n}: {found.reason}"[:200]
        return False, "neither reference nor evidence state it"

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Statements without a verdict."""
        case = {"claims": batch["claims"][prompt.row].as_py()}
        return incomplete(value.verdicts, len(_distinctive(case)))

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Judgements of the answer, of its statements, and of the groups that they are in."""
        if not _reference(case):
            return
        if case["missing"]:
            yield from (metric.unanswered(case, "") for metric in (RESPONSE, STATEMENTS))
        if case["claims_fault"]:
            lost = Fault(case["claims_fault"], "its statements are not known")
            yield from (metric.failed(case, "", lost) for metric in self.metrics)
        claims = _distinctive(case)
        said = answers[0] if answers else Completion()
        verdicts = numbered(said.value.verdicts) if said.value else {}
        gone = said.fault or Fault("incomplete", "no verdict on this statement")
        for n, claim in enumerate(claims, start=1):
            yield from self._of_statement(case, claim, verdicts.get(n), gone)
        if claims:
            known = [verdicts[n].factual for n in range(1, len(claims) + 1) if n in verdicts]
            if all(known) and len(known) < len(claims):
                yield RESPONSE.failed(case, "", gone)
            else:
                reason = f"{sum(known)} of {len(claims)} statements are true"
                yield RESPONSE.judged(case, "", all(known), reason)

    def _of_statement(
        self, case: Case, claim: dict[str, Any], verdict: FactVerdict | None, gone: Fault
    ) -> Iterable[Judgement]:
        """The judgements of a statement: of all, and of its group."""
        groups, unsure = self._groups(case, claim)
        for metric in (STATEMENTS, *groups):
            if verdict is None:
                yield metric.failed(case, claim["text"], gone)
            elif unsure and metric is not STATEMENTS:
                yield metric.failed(case, claim["text"], unsure)
            else:
                yield metric.judged(case, claim["text"], verdict.factual, verdict.reason)

    def _groups(self, case: Case, claim: dict[str, Any]) -> tuple[Sequence[Metric], Fault | None]:
        """The group of a statement, or those that it may be in and why that is not known."""
        if case["cites_fault"]:
            return _GROUPS, Fault(case["cites_fault"], "it is not known what the statement cites")
        if not claim["evidence_ids"]:
            return (NO_REFERENCE,), None
        useful = relevance(case, self.depth)
        inside = [useful[name] for name in claim["evidence_ids"] if name in useful]
        if not inside:
            return (SELF_GENERATED,), None
        if any(inside):
            return (RELEVANT,), None
        if not case["support"]:
            return (), None
        if None in inside:
            return (RELEVANT, IRRELEVANT), lost_support(case) or unknown()
        return (IRRELEVANT,), None


def _distinctive(case: Case) -> list[dict[str, Any]]:
    return [claim for claim in case["claims"] if claim["distinctive"]]


def _reference(case: Case) -> str:
    """The ideal answer, and the nuggets that it may say in other words."""
    nuggets = (f"- {nugget['text']}" for nugget in case["nuggets"])
    return "\n".join(filter(None, (case["ideal_answer"], *nuggets)))
