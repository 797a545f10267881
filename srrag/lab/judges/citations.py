"""Do citations and evidence bear an answer out (RAGAS, TREC BioGen, TREC RAG)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from srrag.lab.judges.support import MAX_CLAIMS
from srrag.lab.measure.judgements import (
    DENIED,
    GRADED,
    Case,
    Judgement,
    Metric,
    Verdict,
    evidence_by_id,
    verdict,
)
from srrag.lab.measure.judging_steps import Measure
from srrag.llm.completion import Fault

_CITES = "an answer that cites evidence"
_SENTENCES = "an answer with sentences"

FAITHFULNESS = Metric("faithfulness", "an answer that makes claims")
COVERAGE = Metric("citation_coverage", _SENTENCES, of="citations")
SUPPORT = Metric("citation_support", _CITES, worth=GRADED, of="citations")
CONTRADICTION = Metric("citation_contradiction", _CITES, "lower", worth=DENIED, of="citations")
VALID = Metric("citation_valid", _SENTENCES)
OUTSIDE = Metric("citations_outside", _CITES, "lower")


@dataclass(frozen=True, kw_only=True)
class MeasureCitations(Measure):
    """Measures an answer by what JudgeClaims found on its claims.

    `faithfulness` is the share of claims that the passages shown to JudgeClaims state. A citation
    states a sentence if it states all claims made of it, in part if it states some or a part of
    one; a part is worth ½.
    Of sentences with claims: `citation_coverage` is the mean worth of a sentence's citations, 0
    without one, so that citing everything does not pay; `citation_valid` is the share of all
    sentences with a citation and none outside the evidence. Of citations: their mean worth, and the
    shares that contradict and that lie outside the evidence (which has to be 0). An abstention has
    neither claims nor citations and is left out; an answer that failed counts as worst.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "missing", "sentences", "evidence", "claims", "claims_fault",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (
        FAITHFULNESS, COVERAGE, SUPPORT, CONTRADICTION, VALID, OUTSIDE,
    )  # fmt: skip

    def measure(self, case: Case) -> Iterable[Judgement]:
        """The judgements of claims, sentences and citations."""
        if case["missing"]:
            for metric in (FAITHFULNESS, COVERAGE, SUPPORT, VALID):
                yield metric.unanswered(case, "")
        claims, lost = case["claims"], case["claims_fault"]
        if lost:
            yield FAITHFULNESS.failed(case, "", Fault(lost, "its claims are not known"))
        for claim in claims:
            if case["evidence"]:
                yield FAITHFULNESS.told(case, claim["text"], {**claim, "fault": ""})
            else:
                yield FAITHFULNESS.settled(case, claim["text"], 0.0, "there is no evidence")
        if len(claims) == MAX_CLAIMS and claims[-1]["sentence"] < len(case["sentences"]) - 1:
            yield FAITHFULNESS.failed(case, "", Fault("too_many", f"claims after {MAX_CLAIMS}"))
        known = evidence_by_id(case)
        for place, sentence in enumerate(case["sentences"]):
            own = [claim for claim in claims if claim["sentence"] == place]
            yield from _of_sentence(case, sentence, known.keys(), own, lost)


def _of_sentence(
    case: Case, sentence: dict[str, Any], known: Iterable[str], own: Sequence[Any], lost: str
) -> Iterable[Judgement]:
    """The judgements of a sentence and its citations; `own` are its claims."""
    text, cited = sentence["text"], list(dict.fromkeys(sentence["evidence_ids"]))
    inside = [name for name in cited if name in known]
    yield VALID.settled(
        case, text, bool(cited) and inside == cited, f"{len(inside)} of {len(cited)} are evidence"
    )
    yield from (OUTSIDE.settled(case, f"{n}: {text}", n not in inside, "") for n in cited)
    worth = []
    for name in cited:
        item = f"{name}: {text}"
        if name not in inside:
            worth.append(SUPPORT.settled(case, item, 0.0, "not in the evidence"))
        elif own or lost:
            said = verdict("none", "", lost) if lost else by_one(name, own)
            worth.append(SUPPORT.told(case, item, said))
            yield CONTRADICTION.told(case, item, said)
    yield from worth
    if not cited:
        yield COVERAGE.settled(case, text, 0.0, "it cites no evidence")
    elif lost and inside:
        yield COVERAGE.failed(case, text, Fault(lost, "its claims are not known"))
    elif worth:
        value = sum(each["value"] for each in worth) / len(cited)
        yield COVERAGE.judged(case, text, value, f"worth of {len(cited)} citations")


def by_one(name: str, claims: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What one piece of evidence says of a sentence, from what it says of its claims."""
    word: Verdict = "none"
    if any(name in claim["denies"] for claim in claims):
        word = "contradicted"
    elif all(name in claim["states"] for claim in claims):
        word = "full"
    elif any(name in claim["states"] + claim["partly"] for claim in claims):
        word = "partial"
    return verdict(word, "; ".join(claim["reason"] for claim in claims))
