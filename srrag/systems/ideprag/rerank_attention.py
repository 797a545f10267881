"""Rank the evidence of topics by attention to their features, and choose of it (EbmKG, 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.hits import SCORE_DECIMALS
from srrag.core.rows import with_columns
from srrag.core.schema import EVIDENCE, HITS, LEFT_OUT, RANKED_FINDINGS, non_null
from srrag.core.spec import evidence_id
from srrag.core.standing import COPY, HIDDEN, Standings
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units
from srrag.model.encoder import Encoder
from srrag.rerank.reranker import best_of_documents, rank_hits
from srrag.systems.ideprag.hypergraph import Hypergraph

Form = Literal["paper", "best"]
FORMS: tuple[Form, ...] = get_args(Form)


def attention_scores(
    cosines: npt.NDArray[np.floating],
    usefulness: npt.NDArray[np.floating],
    form: Form,
    temperature: float = 1.0,
) -> Floats:
    """Score each piece of evidence by the usefulness of the features it resembles: (evidence,).

    `cosines` (evidence, features) compare the vectors of both, `usefulness` (features,) is u.

    - `paper` (Eq. 9): Σ_i u_i softmax_i(cos / τ), τ = 1 as printed. The softmax runs over the
      features, so evidence unlike all of them gets their mean usefulness.
    - `best`: max_i u_i cos_i, the one feature that evidence is most useful for.

    Without features every score is 0.
    """
    if not len(usefulness):
        return np.zeros(len(cosines))
    useful, near = np.asarray(usefulness, np.float64), np.asarray(cosines, np.float64)
    if form == "best":
        best: Floats = (near * useful).max(axis=1)
        return best
    scaled = near / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    scores: Floats = (weights @ useful) / weights.sum(axis=1)
    return scores


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Vectors = Mapping[str, npt.NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class RerankAttention(Step):
    """Score each piece of evidence of the topics, and rank pieces and the windows that show them.

    `form` is that of `attention_scores`, `temperature` its τ. A window counts as its best piece;
    `document` is the share of its document's best score that is added to it, as in RerankMaxSim.
    Of the topics in order at most `most` pieces are scored. Without a feature nothing is ranked.
    """

    form: Form = "best"
    temperature: float = 1.0
    document: float = 1.0
    most: int = 2000
    encoder: Encoder = field(default_factory=Encoder)
    graph: str = "hypergraph"
    units: str = "units"
    into: str = "hits"

    reads: ClassVar[tuple[str, ...]] = ("topics", "features")

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown form or impossible numbers."""
        if self.form not in FORMS:
            raise ValueError(f"form is {self.form!r}: one of {', '.join(FORMS)}")
        if not 0.001 <= self.temperature <= 1000 or self.most < 1 or not 0 <= self.document < 1e6:
            raise ValueError("temperature lies between .001 and 1000, most is at least 1, and "
                             "document at least 0")  # fmt: skip

    @property
    def writes(self) -> pa.Schema:
        """The pairs that were compared, the pieces in order, and the windows in order."""
        return pa.schema(
            [
                pa.field("pairs_scored", pa.int32()),
                pa.field("ranked_findings", RANKED_FINDINGS, nullable=False),
                pa.field(self.into, HITS),
            ]
        )

    def needs(self) -> tuple[str, ...]:
        """The hypergraph, and the windows' documents."""
        return (self.graph, self.units)

    def open(self, at: Place) -> Function:
        """Map the hypergraph."""
        from srrag.model.embed import load

        graph = Hypergraph(at.artifact(self.graph))
        units = open_units(at, self.units)
        model = load(self.encoder, at.device, at.threads)

        def run(batch: pa.Table) -> pa.Table:
            features = batch["features"].to_pylist()
            told = sorted({f["text"] for row in features for f in row if f["evidence"] < 0})
            vectors = {text: model.encode([text])[0] for text in told}
            found = [
                self._row([each["topic"] for each in row], given, graph, vectors)
                for row, given in zip(batch["topics"].to_pylist(), features, strict=True)
            ]
            columns = (
                pa.array([len(pieces) * len(given) for (pieces, _), given
                          in zip(found, features, strict=True)], pa.int32()),
                pa.array([_listed(*each) for each in found], RANKED_FINDINGS),
                self._hits(found, graph, units),
            )  # fmt: skip
            return with_columns(batch, pa.table(columns, schema=self.writes))

        return run

    def _row(
        self, topics: Sequence[int], features: Sequence[Mapping[str, Any]],
        graph: Hypergraph, encoded: Vectors,
    ) -> tuple[Ints, Floats]:  # fmt: skip
        """The pieces of a question's topics, best first, with their scores."""
        if not features:
            return np.zeros(0, np.int64), np.zeros(0)
        pieces = graph.members_of(topics)[: self.most]
        vectors = graph.evidence_vectors[pieces]
        given = np.stack(
            [
                graph.evidence_vectors[each["evidence"]]
                if each["evidence"] >= 0
                else encoded[each["text"]]
                for each in features
            ]
        )
        useful = np.array([each["score"] for each in features])
        scores = attention_scores(vectors @ given.T, useful, self.form, self.temperature)
        order = np.lexsort((pieces, -np.round(scores, SCORE_DECIMALS)))
        return pieces[order], scores[order]

    def _hits(
        self, found: Sequence[tuple[Ints, Floats]], graph: Hypergraph, units: Units
    ) -> pa.Array:
        """The windows of the pieces, each by its best piece, with its document's share."""
        ids: list[str] = []
        scores: list[float] = []
        offsets = [0]
        for pieces, values in found:
            best: dict[str, float] = {}
            for window, value in zip(graph.windows_of(pieces).to_pylist(), values, strict=True):
                if window:
                    best.setdefault(window, float(value))
            ids += best
            scores += best.values()
            offsets.append(len(ids))
        names, values = pa.array(ids, pa.string()), np.array(scores, np.float64)
        first = np.array(offsets, np.int64)
        if self.document and len(ids):
            rows = np.repeat(np.arange(len(found)), np.diff(first))
            values = values + self.document * best_of_documents(values, rows, units, names)
        return rank_hits(names, values, first)


def _listed(pieces: Ints, scores: Floats) -> list[dict[str, Any]]:
    return [
        {"evidence": piece, "score": score}
        for piece, score in zip(pieces.tolist(), scores.tolist(), strict=True)
    ]


_LOOKED_AT = 4
"""Findings, for each one wanted, among which those to show are looked for."""


@dataclass(frozen=True, kw_only=True)
class SelectFindings(Step):
    """Make the evidence block of the best findings: at most `k`, and `words` words in all.

    8,000 words are the paper's limit (appendix A.3); its K is not published. A text stands once. As
    in SelectEvidence, findings of retracted and deleted papers are not taken (`status` "hide"), and
    `left_out` names their papers.
    """

    k: int = 40
    words: int = 8000
    status: str = "hide"
    graph: str = "hypergraph"
    units: str = "units"
    standing: str = "standing"

    reads: ClassVar[tuple[str, ...]] = ("ranked_findings",)
    writes: ClassVar[pa.Schema] = non_null(("left_out", LEFT_OUT), ("evidence", EVIDENCE))

    def __post_init__(self) -> None:
        """Raise ValueError for an empty block or an unknown status."""
        if self.k < 1 or self.words < 1:
            raise ValueError("k and words must be at least 1")
        if self.status not in ("hide", "show"):
            raise ValueError(f"status is {self.status!r}: it can be 'hide' or 'show'")

    def needs(self) -> tuple[str, ...]:
        """The hypergraph, the units index, and the standing of papers where it is built."""
        return (self.graph, self.units, self.standing)

    def open(self, at: Place) -> Function:
        """Map the findings and their documents."""
        graph = Hypergraph(at.artifact(self.graph))
        units, known = open_units(at, self.units), Standings.of(at, self.standing)

        def run(batch: pa.Table) -> pa.Table:
            rows = [
                self._row(each, graph, units, known)
                for each in batch["ranked_findings"].to_pylist()
            ]
            left_out = pa.array([gone for gone, _ in rows], LEFT_OUT)
            evidence = pa.array([kept for _, kept in rows], EVIDENCE)
            return with_columns(batch, pa.table([left_out, evidence], schema=self.writes))

        return run

    def _row(
        self, ranked: Sequence[dict[str, Any]], graph: Hypergraph, units: Units, known: Standings
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The papers that are left out, and the evidence."""
        ranked = ranked[: _LOOKED_AT * self.k]
        rows = graph.evidence.take(pa.array([each["evidence"] for each in ranked], pa.int64()))
        shown = [(n, row) for n, row in enumerate(rows.to_pylist()) if row["window_id"]]
        windows = units.take_evidence([row["window_id"] for _, row in shown]).to_pylist()
        told, links = known.find([row["doc_id"] for _, row in shown])
        gone: dict[str, dict[str, Any]] = {}
        kept: dict[str, dict[str, Any]] = {}
        words = 0
        for (n, row), window, said, link in zip(shown, windows, told, links, strict=True):
            if len(kept) == self.k:
                break
            size = len(row["text"].split())
            if said == COPY or row["text"] in kept or words + size > self.words:
                continue
            item = _evidence(row, window, ranked[n]["score"], said, link)
            if said in HIDDEN and self.status == "hide":
                gone.setdefault(row["doc_id"], {f.name: item[f.name] for f in LEFT_OUT.value_type})
            else:
                kept[row["text"]] = item
                words += size
        return list(gone.values()), list(kept.values())


def _evidence(
    row: dict[str, Any], window: dict[str, Any], score: float, said: str, link: str
) -> dict[str, Any]:
    source = {name: value for name, value in window.items() if name != "parent_id"}
    return source | {
        "evidence_id": evidence_id("finding", row["window_id"], f"{row['label']}\n{row['text']}"),
        "kind": "finding",
        "char_start": row["char_start"],
        "char_end": row["char_end"],
        "text": row["text"],
        "score": score,
        "standing": said,
        "standing_link": link,
    }
