"""Cited documents against gold ones: the only measure of citations without a judge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.spec import file_sha256
from srrag.core.step import Function, Place, Step
from srrag.lab.measure.judgements import JUDGEMENTS, Case, Judgement, Metric
from srrag.lab.measure.retrieval import Qrels, read_qrels

PRECISION = Metric(
    "gold_citation_precision", "an answer that cites, and gold documents", of="citations"
)
RECALL = Metric("gold_citation_recall", "gold documents", of="citations")


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
    metrics: ClassVar[tuple[Metric, ...]] = (PRECISION, RECALL)

    def identity(self) -> dict[str, Any]:
        """The sha256 of the qrels; raises ValueError if there is no such file."""
        return {"qrels": file_sha256(self._path())}

    def open(self, at: Place) -> Function:
        """Read the qrels."""
        qrels = read_qrels(self._path())

        def run(batch: pa.Table) -> pa.Table:
            cases = batch.select(self.reads).to_pylist()
            rows = [judgement for case in cases for judgement in judged(case, qrels)]
            return pa.Table.from_pylist(rows, schema=JUDGEMENTS)

        return run

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
        yield PRECISION.unanswered(case, "")
    for name in cited:
        yield PRECISION.settled(case, name, name in gold, "")
    for name in sorted(gold):
        yield RECALL.settled(case, name, name in cited, "")
