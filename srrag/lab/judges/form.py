"""The form of an answer: citations per sentence, length caps, and repetition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from srrag.algo.mmr import cosines
from srrag.algo.terms import terms
from srrag.algo.tfidf import tfidf
from srrag.lab.measure.judgements import Case, Judgement, Measure, Metric

_SENTENCES = "an answer with sentences"

CITATIONS = Metric("citations_a_sentence", _SENTENCES, "lower")
WITHIN = Metric("within_caps", _SENTENCES)
REDUNDANCY = Metric("redundancy", "an answer of two sentences or more", "lower")
IDEAL = Metric("ideal_word_recall", "an ideal answer in the gold")


@dataclass(frozen=True, kw_only=True)
class MeasureForm(Measure):
    """Citations a sentence, the caps of TREC BioGen, redundancy, words of the ideal answer.

    `within_caps` is whether an answer has at most `words` words, citations apart, and at most
    `citations` a sentence. `redundancy` is the mean over sentences of the highest cosine with
    another one, by TF-IDF fitted on the answer. `ideal_word_recall` is the share of the ideal
    answer's distinct stems that the answer has (ROUGE-1 recall of content words); an answer that
    failed or says nothing has 0. The first two leave out answers without sentences.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "missing", "sentences", "evidence", "ideal_answer",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (CITATIONS, WITHIN, REDUNDANCY, IDEAL)

    words: int = 250
    citations: int = 3

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a metric."""
        said = [sentence["text"] for sentence in case["sentences"]]
        names = {e["evidence_id"]: e["pmid"] or e["source_id"] for e in case["evidence"]}
        sizes = [
            len({names.get(each, each) for each in sentence["evidence_ids"]})
            for sentence in case["sentences"]
        ]
        if said:
            length = sum(len(text.split()) for text in said)
            within = length <= self.words and max(sizes) <= self.citations
            yield CITATIONS.settled(case, "", float(np.mean(sizes)), "")
            reason = f"{length} words, at most {max(sizes)} citations a sentence"
            yield WITHIN.settled(case, "", within, reason)
        if len(said) > 1:
            yield REDUNDANCY.settled(case, "", redundancy(said), "")
        if ideal := set(terms(case["ideal_answer"])):
            held = set(terms(" ".join(said)))
            yield IDEAL.settled(case, "", len(ideal & held) / len(ideal), "")


def redundancy(texts: list[str]) -> float:
    """Mean over texts of the highest cosine with another one, 0…1; two texts are needed."""
    vectors = tfidf([terms(text) for text in texts])
    alike = cosines(vectors, vectors)
    np.fill_diagonal(alike, 0.0)
    return float(alike.max(axis=1).mean())
