"""Findings as the evidence of an answer: the best ones, within a number of words (EbmKG, 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.schema import EVIDENCE, LEFT_OUT, non_null
from srrag.core.spec import evidence_id
from srrag.core.standing import COPY, HIDDEN, Standings
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units
from srrag.systems.ideprag.hypergraph_reader import Hypergraph

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
            batch = batch.append_column(self.writes.field(0), left_out)
            return batch.append_column(self.writes.field(1), evidence)

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
