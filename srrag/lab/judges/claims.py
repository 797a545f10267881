"""Is what an answer says to the point and true, and on what does it rest.

BioACE's precision, as BioGen reports it (section 9.1, Table 3); its correctness and the factuality
of rethinking-rag (section 2.4.1) ask the same of a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from srrag.lab.judges.statements import lost_support, relevance, unknown
from srrag.lab.measure.judgements import Case, Judgement, Metric
from srrag.lab.measure.judging_steps import Measure
from srrag.llm.completion import Fault

_NEEDS = "a reference, and an answer with claims"


def _resting_on(what: str, name: str) -> Metric:
    return Metric(f"factuality_{name}", f"a claim that {what}", pooled=True)


PRECISION = Metric("answer_precision", "nuggets in the gold, and an answer that makes claims")
RESPONSE = Metric("factuality_response", _NEEDS)
STATEMENTS = Metric("factuality", _NEEDS)
RELEVANT = _resting_on("cites evidence that supports a vital nugget", "cited_relevant")
IRRELEVANT = _resting_on("cites only evidence that supports no vital nugget", "cited_irrelevant")
SELF_GENERATED = _resting_on("cites only what was not in the evidence", "self_generated")
NO_REFERENCE = _resting_on("cites nothing", "no_reference")


@dataclass(frozen=True, kw_only=True)
class MeasureClaims(Measure):
    """Precision and factuality by what JudgeByGold said of the claims.

    `answer_precision` is the share of claims that state a nugget, `factuality` that of those which
    are right (both means over questions), `factuality_response` the share of answers without a
    false claim; then the share of all claims that are right among those that cite relevant
    evidence, only irrelevant evidence, only references of the model's own, or nothing. A claim
    cites what its sentence does. Where its group is not known it counts as not judged in each that
    it may be in. An abstention makes no claim and is left out.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "missing", "abstained", "sentences", "evidence", "ideal_answer", "nuggets",
        "support", "claims", "claims_fault", "claim_verdicts",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (
        PRECISION, RESPONSE, STATEMENTS, RELEVANT, IRRELEVANT, SELF_GENERATED, NO_REFERENCE,
    )  # fmt: skip

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of the answer, of its claims, and of the groups that they are in."""
        if not case["nuggets"] and not case["ideal_answer"]:
            return
        precision = (PRECISION,) if case["nuggets"] else ()
        if case["missing"]:
            yield from (
                metric.unanswered(case, "") for metric in (*precision, RESPONSE, STATEMENTS)
            )
        elif case["claims_fault"]:
            lost = Fault(case["claims_fault"], "its claims are not known")
            listed = self.metrics if precision else self.metrics[1:]
            yield from (metric.failed(case, "", lost) for metric in listed)
        elif not case["claims"] and not case["abstained"]:
            yield from (metric.settled(case, "", 0.0, "no claim") for metric in precision)
        useful = relevance(case)
        for claim, said in zip(case["claims"], case["claim_verdicts"], strict=False):
            item = claim["text"]
            made = {**said, "verdict": "full" if said["facts"] else "none"}
            yield from (metric.told(case, item, made) for metric in precision)
            yield STATEMENTS.told(case, item, said)
            groups, unsure = _groups(case, claim, useful)
            for metric in groups:
                if unsure and not said["fault"]:
                    yield metric.failed(case, item, unsure)
                else:
                    yield metric.told(case, item, said)
        if case["claim_verdicts"]:
            yield RESPONSE.whole(case, case["claim_verdicts"], "right")


def _groups(
    case: Case, claim: Mapping[str, Any], useful: Mapping[str, bool | None]
) -> tuple[Sequence[Metric], Fault | None]:
    """The group of a claim, or those that it may be in and why that is not known."""
    place = claim["sentence"]
    cites = case["sentences"][place]["evidence_ids"] if 0 <= place < len(case["sentences"]) else []
    if not cites:
        return (NO_REFERENCE,), None
    inside = [useful[name] for name in cites if name in useful]
    if not inside:
        return (SELF_GENERATED,), None
    if any(inside):
        return (RELEVANT,), None
    if not case["support"]:
        return (), None
    if None in inside:
        return (RELEVANT, IRRELEVANT), lost_support(case) or unknown("")
    return (IRRELEVANT,), None
