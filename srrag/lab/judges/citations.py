"""Citations and evidence: do they bear an answer out, and was the needed evidence found and chosen.

The measures are those of RAGAS, TREC BioGen and TREC RAG; of evidence as experts were asked in the
study of RAG in medicine (rethinking-rag, sections 2.2 and 2.3): a passage is relevant if it
supports a statement that the answer has to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.spec import file_sha256
from srrag.core.step import Function, Place, Step
from srrag.lab.judges.support import MAX_CLAIMS, cited, lost_support, relevance, unknown
from srrag.lab.measure.judgements import (
    DENIED,
    GRADED,
    JUDGEMENTS,
    Case,
    Judgement,
    Metric,
    Verdict,
    evidence_by_id,
    must_have,
    verdict,
)
from srrag.lab.measure.judging_steps import Measure, judging
from srrag.lab.measure.references import Qrels, read_qrels
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
    neither claims nor citations and is left out; an answer that failed counts as worst. A sentence
    behind the last claim that was read counts as one with claims.
    """

    version: ClassVar[int] = 2

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
        read = claims[-1]["sentence"] if len(claims) == MAX_CLAIMS else len(case["sentences"]) - 1
        if read < len(case["sentences"]) - 1:
            yield FAITHFULNESS.failed(case, "", Fault("too_many", f"claims after {MAX_CLAIMS}"))
        known = evidence_by_id(case)
        for place, sentence in enumerate(case["sentences"]):
            own = [claim for claim in claims if claim["sentence"] == place]
            yield from _of_sentence(case, sentence, known.keys(), own, lost)
            if not sentence["evidence_ids"] and (own or lost or place > read):
                yield COVERAGE.settled(case, sentence["text"], 0.0, "it cites no evidence")


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
    if lost and inside:
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


GOLD_PRECISION = Metric(
    "gold_citation_precision", "an answer that cites, and gold documents", of="citations"
)
GOLD_RECALL = Metric("gold_citation_recall", "gold documents", of="citations")


@dataclass(frozen=True, kw_only=True)
class MeasureGoldCitations(Step):
    """Precision and recall of the documents that an answer cites, against the gold ones.

    A document is its PMID, or the corpus's own id where it has none, and counts once an answer.
    `qrels` is a BEIR file of question and document (query-id, corpus-id, score above 0); its
    content is part of the identity, its path is not. An answer that cites nothing has no precision,
    and a recall of 0; an answer that failed has 0 in both.
    """

    qrels: str = field(default="", compare=False, metadata={"identity": False})

    keeps_rows: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ("query_id", "missing", "sentences", "evidence")
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]] = (GOLD_PRECISION, GOLD_RECALL)

    def identity(self) -> dict[str, Any]:
        """The sha256 of the qrels; raises ValueError if there is no such file."""
        return {"qrels": file_sha256(self._path())}

    def open(self, at: Place) -> Function:
        """Read the qrels."""
        qrels = read_qrels(self._path())
        return judging(self, lambda case: judged(case, qrels))

    def _path(self) -> Path:
        path = Path(self.qrels)
        if not path.is_file():
            raise ValueError(f"qrels={self.qrels}: there is no such file")
        return path


def judged(case: Case, qrels: Qrels) -> Iterable[Judgement]:
    """One judgement a cited document, and one a gold document."""
    gold = {name for name, grade in qrels.get(case["query_id"], {}).items() if grade > 0}
    if not gold:
        return
    names = {item["evidence_id"]: item["pmid"] or item["source_id"] for item in case["evidence"]}
    cites = [each for sentence in case["sentences"] for each in sentence["evidence_ids"]]
    cited = dict.fromkeys(names.get(each, each) for each in cites)
    if case["missing"]:
        yield GOLD_PRECISION.unanswered(case, "")
    for name in cited:
        yield GOLD_PRECISION.settled(case, name, name in gold, "")
    for name in sorted(gold):
        yield GOLD_RECALL.settled(case, name, name in cited, "")


_NEEDS = "vital nuggets in the gold"
MOST = 64
"""Pieces of evidence that a `depth` can name."""

EVIDENCE_PRECISION = Metric("evidence_precision", _NEEDS, of="evidence")
EVIDENCE_MISS = Metric("evidence_miss", _NEEDS, "lower", of="evidence")
EVIDENCE_COVERAGE = Metric("evidence_coverage", _NEEDS, of="evidence")
CONTEXT_PRECISION = Metric("context_precision", _NEEDS, of="evidence")
CHOSEN = Metric(
    "selection_precision", "cited evidence, and vital nuggets", pooled=True, of="citations"
)
CHOSEN_OF_ALL = Metric(
    "selection_recall", "evidence that supports a vital nugget", pooled=True, of="citations"
)


@dataclass(frozen=True, kw_only=True)
class MeasureEvidence(Measure):
    """Measures evidence by what JudgeStatements found.

    Of the `depth` best pieces (None: all): `evidence_coverage` is the share of statements that any
    supports (context recall), `evidence_precision` the share that supports any, `evidence_miss` 1
    where none does, and `context_precision` the average precision of their order (RASRAG, equation
    6). A question without evidence has the worst value of each.

    Over all questions together, each piece once an answer: `selection_precision` is the share of
    what is cited that is relevant, `selection_recall` that of what is relevant that is cited;
    references outside the evidence count in neither. An answer that failed or abstained has cited
    nothing of what was there.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "sentences", "evidence", "nuggets", "support")
    metrics: ClassVar[tuple[Metric, ...]] = (
        EVIDENCE_PRECISION, EVIDENCE_MISS, EVIDENCE_COVERAGE, CONTEXT_PRECISION, CHOSEN,
        CHOSEN_OF_ALL,
    )  # fmt: skip

    depth: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a depth that says nothing."""
        if self.depth is not None and not 1 <= self.depth <= MOST:
            raise ValueError(f"depth is {self.depth}: 1 to {MOST} work")

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of the statements, of the evidence, of the question, and of citations."""
        if not case["support"]:
            return
        shown = [item["evidence_id"] for item in case["evidence"][: self.depth]]
        for statement, support in zip(must_have(case), case["support"], strict=True):
            if not shown:
                yield EVIDENCE_COVERAGE.settled(case, statement, 0.0, "there is no evidence")
            elif support["fault"]:
                yield EVIDENCE_COVERAGE.failed(case, statement, unknown(support["fault"]))
            else:
                found = not set(shown).isdisjoint(support["evidence_ids"])
                yield EVIDENCE_COVERAGE.judged(case, statement, found, support["reason"])
        yield from _of_evidence(case, shown)
        yield from _of_selection(case)


def _of_evidence(case: Case, shown: list[str]) -> Iterable[Judgement]:
    """Precision, miss and order; what a lost verdict may have named is not judged."""
    if not shown:
        for metric in (EVIDENCE_PRECISION, EVIDENCE_MISS, CONTEXT_PRECISION):
            yield metric.settled(case, "", metric.worst, "there is no evidence")
        return
    lost, useful = lost_support(case), relevance(case)
    for name in shown:
        if useful[name] is None and lost:
            yield EVIDENCE_PRECISION.failed(case, name, lost)
        else:
            yield EVIDENCE_PRECISION.judged(case, name, bool(useful[name]), "")
    ranks = [rank for rank, name in enumerate(shown, start=1) if useful[name]]
    said = f"{len(ranks)} of {len(shown)} support a statement"
    for metric, value, known in (
        (EVIDENCE_MISS, not ranks, bool(ranks)),
        (CONTEXT_PRECISION, average_precision(ranks), False),
    ):
        if lost and not known:
            yield metric.failed(case, "", lost)
        else:
            yield metric.judged(case, "", value, said)


def _of_selection(case: Case) -> Iterable[Judgement]:
    """A judgement a cited, and one a relevant piece of evidence."""
    references, lost = cited(case), lost_support(case) or unknown("")
    for name, relevant in relevance(case).items():
        for metric, counts, value in (
            (CHOSEN, name in references, bool(relevant)),
            (CHOSEN_OF_ALL, relevant is not False, name in references),
        ):
            if counts and relevant is None:
                yield metric.failed(case, name, lost)
            elif counts:
                yield metric.judged(case, name, value, "")


def average_precision(ranks: list[int]) -> float:
    """Mean of precision@n over the ranks n, from 1 and rising, of what is useful; 0 of nothing."""
    return sum(hits / rank for hits, rank in enumerate(ranks, start=1)) / max(1, len(ranks))
