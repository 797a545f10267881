"""Answer precision and correctness: the share of an answer's claims that the gold states (BioACE).

BioGen reports them beside completeness and recall (`nuggets`): section 9.1, Table 3. There a
statement is a nugget taken from the answer; here it is a claim of the preparation `claims`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.algo.entailment import THRESHOLD, content_stems, entails
from srrag.lab.judges.claims import MAX_CLAIMS
from srrag.lab.measure.judgements import Case, Judge, Judgement, Metric, incomplete, lines, numbered
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_precision.md")
MAX_FACTS = 64

PRECISION = Metric("answer_precision", "nuggets in the gold, and an answer that makes claims")
CORRECTNESS = Metric("answer_correctness", "a reference in the gold, and an answer with claims")


class StatementVerdict(Answer):
    """Which facts one statement makes, and whether it is right."""

    n: Annotated[int, Field(ge=1, le=MAX_CLAIMS)]
    reason: Annotated[str, StringConstraints(max_length=200)]
    facts: Annotated[list[Annotated[int, Field(ge=1, le=MAX_FACTS)]], Field(max_length=MAX_FACTS)]
    correct: bool


class StatementVerdicts(Answer):
    """A verdict a statement."""

    verdicts: Annotated[list[StatementVerdict], Field(max_length=MAX_CLAIMS)]


@dataclass(frozen=True, kw_only=True)
class JudgePrecision(Judge):
    """One call an answer, with all its claims, the nuggets and the ideal answer.

    `answer_precision` is the share of claims that make a nugget, `answer_correctness` that of those
    which answer the question and are right; both are means over questions. An abstention makes no
    claim and is left out; an answer that failed counts 0. By rules a claim makes a nugget of which
    it holds `threshold` of the words, and is right if nuggets and ideal answer hold `stated` of its
    words and do not deny it; a claim without a word that the question lacks is neither. So rules
    call nothing right that the gold does not say.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "missing", "claims", "claims_fault", "nuggets", "ideal_answer",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (PRECISION, CORRECTNESS)
    schema: ClassVar[type[Answer]] = StatementVerdicts
    max_tokens: ClassVar[int] = 2048
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    stated: float = 0.6
    """As for citations."""

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """One prompt, if there are claims and something to compare them with."""
        if not case["claims"] or not _metrics(case):
            return []
        user = PROMPT.user(
            question=quoted(case["text"]),
            facts=lines({"fact": text} for text in _facts(case)) or "[]",
            ideal=quoted(case["ideal_answer"]),
            statements=lines({"statement": claim["text"]} for claim in case["claims"]),
        )
        return [(PROMPT.system(), user)]

    def rule(self, case: Case, number: int) -> StatementVerdicts:
        """Compare the words of each claim with those of the nuggets and the ideal answer."""
        asked = set(content_stems(case["text"]))
        verdicts = []
        for n, claim in enumerate(case["claims"], start=1):
            if set(content_stems(claim["text"])) - asked:
                verdicts.append(self._verdict(case, n, claim["text"]))
                continue
            said = "it says nothing that the question does not"
            verdicts.append(StatementVerdict(n=n, reason=said, facts=[], correct=False))
        return StatementVerdicts(verdicts=verdicts)

    def _verdict(self, case: Case, n: int, claim: str) -> StatementVerdict:
        made = [
            number
            for number, fact in enumerate(_facts(case), start=1)
            if entails(claim, fact, case["text"], THRESHOLD).verdict == "supported"
        ]
        gold = "\n".join(filter(None, (case["ideal_answer"], *_facts(case))))
        found = entails(gold, claim, threshold=self.stated)
        right = found.verdict == "supported"
        return StatementVerdict(n=n, reason=found.reason[:200], facts=made, correct=right)

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Claims without a verdict."""
        return incomplete(value.verdicts, len(batch["claims"][prompt.row]))

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Two judgements a claim; a fact that does not exist counts as none."""
        metrics, num_facts = _metrics(case), len(_facts(case))
        if case["missing"]:
            yield from (metric.unanswered(case, "") for metric in metrics)
        if case["claims_fault"]:
            lost = Fault(case["claims_fault"], "the claims could not be split")
            yield from (metric.failed(case, "", lost) for metric in metrics)
        said = answers[0] if answers else Completion()
        verdicts = numbered(said.value.verdicts) if said.value else {}
        gone = said.fault or Fault("incomplete", "no verdict on this claim")
        for n, claim in enumerate(case["claims"], start=1):
            found = verdicts.get(n)
            for metric in metrics:
                if found is None:
                    yield metric.failed(case, claim["text"], gone)
                    continue
                made = any(fact <= num_facts for fact in found.facts)
                value = made if metric is PRECISION else found.correct
                yield metric.judged(case, claim["text"], value, found.reason)


def _facts(case: Case) -> list[str]:
    return [nugget["text"] for nugget in case["nuggets"]][:MAX_FACTS]


def _metrics(case: Case) -> tuple[Metric, ...]:
    """What the gold of a case allows: precision needs nuggets."""
    if case["nuggets"]:
        return PRECISION, CORRECTNESS
    return (CORRECTNESS,) if case["ideal_answer"] else ()
