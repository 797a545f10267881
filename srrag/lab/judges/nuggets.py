"""Measures of the text of an answer by its gold: nuggets, PICOT, claims, length, similarity.

Coverage is TREC's nuggetizer and SR-RAG's (section 2.4), completeness that of rethinking-rag
(section 2.4.2). What claims are worth is BioACE's precision, as BioGen reports it (section 9.1,
Table 3); its correctness and the factuality of rethinking-rag (section 2.4.1) ask the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from srrag.core.step import Function, Place, Step
from srrag.lab.judges.support import cited, lost_support, relevance, unknown
from srrag.lab.measure.judgements import (
    DENIED,
    FIELDS,
    GRADED,
    JUDGEMENTS,
    MADE,
    Case,
    Judgement,
    Metric,
    first_words,
    must_have,
    num_words,
)
from srrag.lab.measure.judging_steps import Measure, judging
from srrag.llm.completion import Fault
from srrag.model.encoder import Encoder

COVERAGE = Metric("nugget_coverage", "nuggets in the gold", worth=GRADED)
VITAL = Metric("nugget_coverage_vital", "vital nuggets in the gold", worth=GRADED)
KEY_POINTS = Metric("keypoint_coverage", "nuggets in the gold", pooled=True)
DENSITY = Metric("nuggets_per_100_words", "nuggets in the gold, and an answer")
CONTRADICTED = Metric(
    "nugget_contradiction", "nuggets in the gold, and an answer", "lower", worth=DENIED
)


@dataclass(frozen=True, kw_only=True)
class MeasureNuggets(Measure):
    """Coverage by what JudgeByGold said of the nuggets.

    `nugget_coverage` is the mean over questions, where a part is worth ½ (the nuggetizer's A and,
    of vital nuggets, V); `keypoint_coverage` the share of all nuggets of all questions that are
    stated in full (IdepRAG, equation 11; SR-RAG's covered or not). `nuggets_per_100_words` counts
    those in the first `words` words, as the judge saw them. Without an answer none is covered.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "answer", "missing", "nuggets", "nugget_verdicts",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (COVERAGE, VITAL, KEY_POINTS, DENSITY, CONTRADICTED)

    words: int | None = 250
    """Of JudgeByGold."""

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of all nuggets, and of their density."""
        if case["nuggets"]:
            yield self._density(case)
        for nugget, said in zip(case["nuggets"], case["nugget_verdicts"], strict=True):
            vital = (VITAL,) if nugget["importance"] == "vital" else ()
            for metric in (COVERAGE, *vital, KEY_POINTS):
                yield metric.told(case, nugget["text"], said)
            if not case["missing"]:
                yield CONTRADICTED.told(case, nugget["text"], said)

    def _density(self, case: Case) -> Judgement:
        """How many nuggets 100 words cover."""
        said = case["nugget_verdicts"]
        if case["missing"]:
            return DENSITY.unanswered(case, "")
        if lost := next((each["fault"] for each in said if each["fault"]), ""):
            return DENSITY.failed(case, "", Fault(lost, "a nugget was not judged"))
        covered = sum(each["verdict"] == "full" for each in said)
        words = max(1, num_words(first_words(case["answer"], self.words)))
        return DENSITY.judged(case, "", 100 * covered / words, f"{covered} in {words} words")


_FIELD = "a PICOT field in the gold"

MATCH = Metric("picot_match", _FIELD, pooled=True)
WITH_MISSING = Metric("picot_match_missing_counted", _FIELD, pooled=True)


@dataclass(frozen=True, kw_only=True)
class MeasurePicot(Measure):
    """The share of parts that JudgeByGold matched in full, over all questions together.

    A part that the gold lacks is left out of `picot_match` (SR-RAG, section 2.4 and Listing S4),
    and counts as matched in `picot_match_missing_counted` (its section 4.6), unless there is no
    answer: then nothing is matched.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing", "picot", "picot_verdicts")
    metrics: ClassVar[tuple[Metric, ...]] = (MATCH, WITH_MISSING)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a part, once without and once with the parts that the gold lacks."""
        said = iter(case["picot_verdicts"])
        for name in FIELDS if any(case["picot"].values()) else ():
            if case["picot"][name]:
                verdict = next(said)
                yield from (metric.told(case, name, verdict) for metric in self.metrics)
            elif case["missing"]:
                yield WITH_MISSING.unanswered(case, name)
            else:
                yield WITH_MISSING.settled(case, name, 1.0, "the gold lacks this part")


_VITAL = "vital nuggets in the gold"


def _group(name: str, needs: str) -> Metric:
    return Metric(f"completeness_{name}", f"vital nuggets that {needs}", pooled=True, worth=MADE)


COMPLETENESS_RESPONSE = Metric("completeness_response", _VITAL, worth=MADE)
COMPLETENESS = Metric("completeness", _VITAL, worth=MADE)
REFERENCED = _group("supported_referenced", "cited evidence supports")
MISSED = _group("supported_missed", "only evidence not cited supports")
UNSUPPORTED = _group("unsupported", "no evidence supports")
_GROUPS = (REFERENCED, MISSED, UNSUPPORTED)


@dataclass(frozen=True, kw_only=True)
class MeasureCompleteness(Measure):
    """Completeness by what JudgeByGold said of the vital nuggets.

    A nugget that the answer makes in full or in part counts as made. `completeness_response` is the
    share of answers that make all, `completeness` the mean over questions of the share made; then
    that of all nuggets which cited evidence supports, which only evidence that was not cited
    supports, and which none supports.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "answer", "missing", "sentences", "nuggets", "support", "nugget_verdicts",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (COMPLETENESS_RESPONSE, COMPLETENESS, *_GROUPS)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of the answer, of its vital nuggets, and of the groups that they are in."""
        named = set(cited(case))
        said = [
            verdict
            for nugget, verdict in zip(case["nuggets"], case["nugget_verdicts"], strict=True)
            if nugget["importance"] == "vital"
        ]
        for item, verdict, support in zip(must_have(case), said, case["support"], strict=True):
            yield COMPLETENESS.told(case, item, verdict)
            lost = support["fault"]
            for metric in _nugget_groups(support, named):
                if lost and not case["missing"] and not verdict["fault"]:
                    yield metric.failed(case, item, unknown(lost))
                elif not (lost and case["missing"]):
                    yield metric.told(case, item, verdict)
        if said:
            yield COMPLETENESS_RESPONSE.whole(case, said, "made")


def _nugget_groups(support: dict[str, Any], named: set[str]) -> Sequence[Metric]:
    """The group of a nugget; all of them if it is not known what supports it."""
    if support["fault"]:
        return _GROUPS
    if not support["evidence_ids"]:
        return (UNSUPPORTED,)
    return (REFERENCED,) if named & set(support["evidence_ids"]) else (MISSED,)


_CLAIMED = "a reference, and an answer with claims"


def _resting_on(what: str, name: str) -> Metric:
    return Metric(f"factuality_{name}", f"a claim that {what}", pooled=True)


PRECISION = Metric("answer_precision", "nuggets in the gold, and an answer that makes claims")
FACTUALITY_RESPONSE = Metric("factuality_response", _CLAIMED)
FACTUALITY = Metric("factuality", _CLAIMED)
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
        PRECISION, FACTUALITY_RESPONSE, FACTUALITY, RELEVANT, IRRELEVANT, SELF_GENERATED,
        NO_REFERENCE,
    )  # fmt: skip

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of the answer, of its claims, and of the groups that they are in."""
        if not case["nuggets"] and not case["ideal_answer"]:
            return
        precision = (PRECISION,) if case["nuggets"] else ()
        if case["missing"]:
            yield from (
                metric.unanswered(case, "")
                for metric in (*precision, FACTUALITY_RESPONSE, FACTUALITY)
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
            yield FACTUALITY.told(case, item, said)
            groups, unsure = _claim_groups(case, claim, useful)
            for metric in groups:
                if unsure and not said["fault"]:
                    yield metric.failed(case, item, unsure)
                else:
                    yield metric.told(case, item, said)
        if case["claim_verdicts"]:
            yield FACTUALITY_RESPONSE.whole(case, case["claim_verdicts"], "right")


def _claim_groups(
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


WORDS = Metric("answer_words", "an answer", "neither")
WITHIN = Metric("within_caps", "an answer with sentences")


@dataclass(frozen=True, kw_only=True)
class MeasureForm(Measure):
    """Words of the printed answer without citation marks, and whether it keeps within caps.

    `answer_words` counts abstentions too; an answer that failed has no length. `within_caps` is
    whether the sentences have at most `words` words together and `citations` articles each.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing", "sentences", "evidence")
    metrics: ClassVar[tuple[Metric, ...]] = (WORDS, WITHIN)

    words: int = 250
    citations: int = 3

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a metric."""
        if not case["missing"]:
            yield WORDS.settled(case, "", num_words(case["answer"]), "")
        names = {e["evidence_id"]: e["pmid"] or e["source_id"] for e in case["evidence"]}
        sizes = [len({names.get(n, n) for n in s["evidence_ids"]}) for s in case["sentences"]]
        if sizes:
            length = sum(len(each["text"].split()) for each in case["sentences"])
            within = length <= self.words and max(sizes) <= self.citations
            reason = f"{length} words, at most {max(sizes)} citations a sentence"
            yield WITHIN.settled(case, "", within, reason)


SIMILARITY = Metric("semantic_similarity", "an ideal answer in the gold")


@dataclass(frozen=True, kw_only=True)
class MeasureSimilarity(Step):
    """The cosine of the sentence vectors, 0 where it is negative or there is no answer.

    SR-RAG, section 4.6.
    """

    keeps_rows: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing", "ideal_answer")
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]] = (SIMILARITY,)

    encoder: Encoder = field(default_factory=Encoder)

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        encode = load(self.encoder, at.device, at.threads).encode

        def measure(case: Case) -> Iterable[Judgement]:
            if case["ideal_answer"] and case["missing"]:
                yield SIMILARITY.unanswered(case, "ideal_answer")
            elif case["ideal_answer"]:
                one, other = encode([case["answer"], case["ideal_answer"]])
                value = float(np.clip(one @ other, 0, 1))
                yield SIMILARITY.judged(case, "ideal_answer", value, "")

        return judging(self, measure)
