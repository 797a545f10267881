"""Does an answer say all that it has to, and why not (rethinking-rag, section 2.4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from srrag.algo.entailment import THRESHOLD, entails
from srrag.lab.judges.evidence_support import cited, unknown
from srrag.lab.measure.judgements import REASON, Case, Judge, Judgement, Metric, must_have
from srrag.llm.completion import Answer, Completion, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_completeness.md")
Verdict = Literal["full", "partial", "none", "contradicted"]
_NEEDS = "vital nuggets in the gold"

RESPONSE = Metric("completeness_response", _NEEDS)
STATEMENTS = Metric("completeness", _NEEDS)
IN_FULL = Metric("completeness_in_full", _NEEDS)
REFERENCED = Metric(
    "completeness_supported_referenced", "vital nuggets that cited evidence supports", pooled=True
)
MISSED = Metric(
    "completeness_supported_missed",
    "vital nuggets that only evidence not cited supports",
    pooled=True,
)
UNSUPPORTED = Metric(
    "completeness_unsupported", "vital nuggets that no evidence supports", pooled=True
)
_GROUPS = (REFERENCED, MISSED, UNSUPPORTED)

_OF_RULE: dict[str, Verdict] = {
    "supported": "full",
    "contradicted": "contradicted",
    "neutral": "none",
}


class CompletenessVerdict(Answer):
    """How far an answer makes one statement."""

    reason: Annotated[str, REASON]
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class JudgeCompleteness(Judge):
    """One call a vital nugget, which sees the question, the answer's text and that nugget.

    A nugget that the answer makes in full or in part counts as made, as it does of evidence;
    `completeness_in_full` is stricter. `completeness_response` is the share of answers that make
    all, `completeness` the mean over questions of the share made; then that of all nuggets which
    cited evidence supports, which only evidence that was not cited supports, and which none
    supports. Rules tell no part from a whole: for them an answer makes what it holds `threshold`
    of the words of.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "answer", "missing", "sentences", "nuggets", "support",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (RESPONSE, STATEMENTS, IN_FULL, *_GROUPS)
    schema: ClassVar[type[Answer]] = CompletenessVerdict
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """A prompt a vital nugget."""
        if case["missing"]:
            return []
        shared = {"question": quoted(case["text"]), "answer": quoted(case["answer"])}
        system = PROMPT.system()
        return [(system, PROMPT.user(**shared, statement=quoted(s))) for s in must_have(case)]

    def rule(self, case: Case, number: int) -> CompletenessVerdict:
        """Compare the words of the nugget with those of the answer."""
        found = entails(case["answer"], must_have(case)[number], case["text"], THRESHOLD)
        return CompletenessVerdict(reason=found.reason, verdict=_OF_RULE[found.verdict])

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Judgements of the answer, of its vital nuggets, and of the groups that they are in."""
        named = set(cited(case))
        statements = must_have(case)
        for number, (statement, support) in enumerate(
            zip(statements, case["support"], strict=True)
        ):
            groups = _groups(support, named)
            if case["missing"]:
                metrics = (STATEMENTS, IN_FULL, *(groups if len(groups) == 1 else ()))
                yield from (metric.unanswered(case, statement) for metric in metrics)
            elif fault := answers[number].fault:
                metrics = (STATEMENTS, IN_FULL, *groups)
                yield from (metric.failed(case, statement, fault) for metric in metrics)
            else:
                said = answers[number].value
                yield from _of_nugget(case, statement, said, groups, support["fault"])
        if statements:
            yield _of_response(case, answers)


def _of_nugget(
    case: Case, item: str, said: CompletenessVerdict, groups: Sequence[Metric], lost: str
) -> Iterable[Judgement]:
    """The judgements of a nugget: of all, and of its group."""
    reason = f"{said.verdict}: {said.reason}"
    made = said.verdict in ("full", "partial")
    yield STATEMENTS.judged(case, item, made, reason)
    yield IN_FULL.judged(case, item, said.verdict == "full", reason)
    for metric in groups:
        yield (
            metric.failed(case, item, unknown(lost))
            if lost
            else metric.judged(case, item, made, reason)
        )


def _groups(support: dict[str, Any], named: set[str]) -> Sequence[Metric]:
    """The group of a nugget; all of them if it is not known what supports it."""
    if support["fault"]:
        return _GROUPS
    if not support["evidence_ids"]:
        return (UNSUPPORTED,)
    return (REFERENCED,) if named & set(support["evidence_ids"]) else (MISSED,)


def _of_response(case: Case, answers: Sequence[Completion]) -> Judgement:
    """Whether all are made; not judged if only those are open whose verdict is lost."""
    if case["missing"]:
        return RESPONSE.unanswered(case, "")
    known = [each.value.verdict in ("full", "partial") for each in answers if not each.fault]
    lost = next((each.fault for each in answers if each.fault), None)
    if lost and all(known):
        return RESPONSE.failed(case, "", lost)
    return RESPONSE.judged(case, "", all(known), f"{sum(known)} of {len(answers)} are made")
