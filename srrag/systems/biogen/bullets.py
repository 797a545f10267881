"""Evidence in bullets: single sentences of many documents, relevant and unlike each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.fusion import cosines, mmr
from srrag.algo.terms import terms, tfidf
from srrag.core.rows import Row, live
from srrag.core.schema import EVIDENCE
from srrag.core.spec import evidence_id
from srrag.core.step import Function, Place, Step
from srrag.reading.prose import split_sentences

Relevance = Literal["both", "tfidf", "rank"]
Floats = npt.NDArray[np.float64]

MAX_BULLET_WORDS = 28
CUT = " …"
"""Ends a quote that does not end its sentence."""
MIN_TERMS = 3
"""Content words without which a sentence is a fragment."""


class Bullet(NamedTuple):
    """A sentence of a document: the document's place in the ranking, and the text as it is cut."""

    document: int
    text: str
    start: int
    """Where the text begins in that of its document, −1 where it is not verbatim."""


@dataclass(frozen=True, kw_only=True)
class SelectBullets(Step):
    """Make the evidence block of single sentences of the column `summaries` (BioGen, section 7.3f).

    Each document gives its first `per_document` sentences, cut at `words` words with a mark (CUT);
    a model's summary gives them whole, since it was told that limit and a cut takes the result
    away. Of all these at most `n` are chosen by maximal marginal relevance with weight `diversity`;
    of equal ones the first. Relevance is the mean cosine with the question and each text of the
    column `versions` by TF-IDF, fitted on this question's bullets and queries (`tfidf`, the paper);
    the document's place in the ranking, which falls from 1 to 0 over `n` documents (`rank`: in that
    order, without MMR); or `rank_weight` of the place and the rest of TF-IDF (`both`). `n` is not
    published.
    """

    version: ClassVar[int] = 3

    summaries: str = "summaries"
    versions: str = "reformulations"
    relevance: Relevance = "both"
    n: int = 16
    per_document: int = 3
    words: int = MAX_BULLET_WORDS
    diversity: float = 0.75
    rank_weight: float = 0.75

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown relevance or a number that leaves nothing."""
        if self.relevance not in get_args(Relevance):
            known = ", ".join(get_args(Relevance))
            raise ValueError(f"relevance is {self.relevance!r}: it can be {known}")
        if min(self.n, self.per_document, self.words) < 1:
            raise ValueError("n, per_document and words must be at least 1")
        if not 0.0 <= self.diversity <= 1.0:
            raise ValueError(f"diversity is {self.diversity}: the weight of relevance, 0 to 1")
        if not 0.0 <= self.rank_weight <= 1.0:
            raise ValueError(f"rank_weight is {self.rank_weight}: a share, 0 to 1")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question in its wordings, and the summaries."""
        return ("text", *filter(None, (self.versions,)), self.summaries)

    @property
    def writes(self) -> pa.Schema:
        """The evidence."""
        return pa.schema([pa.field("evidence", EVIDENCE, nullable=False)])

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""

        def run(batch: pa.Table) -> pa.Table:
            rows: list[list[Row]] = [[] for _ in range(batch.num_rows)]
            for number, row in live(batch, self.reads):
                rows[number] = self.select(row)
            return batch.append_column(self.writes.field(0), pa.array(rows, EVIDENCE))

        return run

    def select(self, row: Row) -> list[Row]:
        """The bullets of a question, in the order in which they were chosen."""
        documents = row[self.summaries]
        bullets = self.bullets(documents)
        if not bullets:
            return []
        queries = [row["text"], *(row[self.versions] if self.versions else [])]
        order, worth = self.ranked(bullets, queries)
        return [as_evidence(documents[bullets[n].document], bullets[n], worth[n]) for n in order]

    def bullets(self, documents: Sequence[Row]) -> list[Bullet]:
        """The first sentences of each document; no fragment, and none twice in a document."""
        found = []
        for place, document in enumerate(documents):
            said = split_sentences(document["text"], document["section"])
            words = None if document["kind"] == "summary" else self.words
            short = (shortened(each.text, words) for each in said)
            kept = [text for text in dict.fromkeys(short) if len(terms(text)) >= MIN_TERMS]
            kept = kept[: self.per_document]
            found += [
                Bullet(place, text, document["text"].find(text.removesuffix(CUT))) for text in kept
            ]
        return found

    def ranked(self, bullets: Sequence[Bullet], queries: Sequence[str]) -> tuple[list[int], Floats]:
        """The places of the chosen bullets in order, and the relevance of every bullet."""
        place = np.array([bullet.document for bullet in bullets], np.float64)
        by_rank: Floats = np.maximum(0.0, 1.0 - place / self.n)
        if self.relevance == "rank":
            return list(range(len(bullets)))[: self.n], by_rank
        vectors = tfidf([terms(text) for text in (*(b.text for b in bullets), *queries)])
        own, asked = vectors[: len(bullets)], vectors[len(bullets) :]
        worth: Floats = cosines(own, asked).mean(axis=1)
        if self.relevance == "both":
            worth = self.rank_weight * by_rank + (1.0 - self.rank_weight) * worth
        return mmr(worth, cosines(own, own), self.n, self.diversity).tolist(), worth


def shortened(text: str, words: int | None) -> str:
    """A text of at most `words` words, None for all, and the mark of a cut where it lost some."""
    every = text.split()
    return " ".join(every) if len(every[:words]) == len(every) else " ".join(every[:words]) + CUT


def as_evidence(document: Row, bullet: Bullet, worth: float) -> dict[str, Any]:
    """A bullet as a piece of evidence of its document, with its span where that is known."""
    start = document["char_start"] + bullet.start
    known = document["char_start"] >= 0 and bullet.start >= 0
    span = (start, start + len(bullet.text.removesuffix(CUT))) if known else (-1, -1)
    return document | {
        "evidence_id": evidence_id("bullet", document["unit_id"], bullet.text),
        "kind": "bullet",
        "text": bullet.text,
        "char_start": span[0],
        "char_end": span[1],
        "score": float(worth),
    }
