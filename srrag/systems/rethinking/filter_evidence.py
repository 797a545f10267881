"""Keep the hits that a trained filter judges to hold evidence for the question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.hits import pack_flat, ranks, unpack_hits
from srrag.core.provenance import Fitted
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step
from srrag.model.filter import DECIMALS, read_facts
from srrag.storage.sealed_folder import sealed_revision
from srrag.systems.rethinking.judge_evidence import filter_folder

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FilterEvidence(Step):
    """Of the first `depth` hits, keep those with a high enough p(yes | question, passage).

    Rethinking RAG in medicine, section 4.2. `JudgeEvidence` wrote p to `probability`. The column
    `into` holds the kept hits with their order and scores; `<into>_rejected` holds the rejected
    ones, scored and sorted by p; `<into>_probability` holds the p of each kept hit. Hits below
    `depth` are dropped unjudged. `model` is the folder of the filter that judged; its content is
    part of the identity, its path is not. A null `threshold` takes the filter's own.
    """

    model: str = field(default="", compare=False, metadata={"identity": False})
    hits: str = "hits_ranked"
    probability: str = "evidence_probability"
    into: str = "hits"
    depth: int = 32
    threshold: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a threshold outside 0…1 or a depth below 1."""
        value = self.threshold
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"threshold is {value}: a probability, or null for the filter's own")
        if self.depth < 1:
            raise ValueError(f"depth is {self.depth}: at least one hit has to be looked at")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits and the probability of each."""
        return (self.hits, self.probability)

    @property
    def writes(self) -> pa.Schema:
        """The rejected hits, the probabilities of those kept, and those kept."""
        return pa.schema(
            [
                pa.field(f"{self.into}_rejected", HITS),
                pa.field(f"{self.into}_probability", pa.list_(pa.float32())),
                pa.field(self.into, HITS),
            ]
        )

    def identity(self) -> dict[str, Any]:
        """The content of the filter."""
        return {"model": sealed_revision(filter_folder(self.model))}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions of the pairs that the filter's thresholds were chosen on."""
        return (read_facts(filter_folder(self.model)).fitted,)

    def open(self, at: Place) -> Function:
        """Read the filter's threshold."""
        decision = read_facts(filter_folder(self.model)).decision
        least = decision.threshold if self.threshold is None else self.threshold

        def run(batch: pa.Table) -> pa.Table:
            ids, scores, offsets = unpack_hits(batch[self.hits])
            rows = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            head = np.arange(len(ids)) - offsets[rows] < self.depth
            ids, scores, rows = ids.filter(pa.array(head)), scores[head], rows[head]
            found = self._judged(batch, np.bincount(rows, minlength=batch.num_rows))
            keep = found >= least
            by_probability = np.lexsort((-found, rows))
            kept, rejected = np.flatnonzero(keep), by_probability[~keep[by_probability]]
            columns = [
                _lists(ids, found, rows, rejected, batch.num_rows),
                _floats(found, rows, kept, batch.num_rows),
                _lists(ids, scores, rows, kept, batch.num_rows),
            ]
            for item, column in zip(self.writes, columns, strict=True):
                batch = batch.append_column(item, column)
            return batch

        return run

    def _judged(self, batch: pa.Table, sizes: Ints) -> Floats:
        """Probabilities of the first hits of each row, flat; ValueError if fewer were judged."""
        lists = batch[self.probability].combine_chunks()
        offsets = np.asarray(lists.offsets, np.int64) - int(lists.offsets[0].as_py())
        judged = np.diff(offsets)
        if (judged < sizes).any():
            raise ValueError(
                f"depth is {self.depth}, but {self.probability} holds no more than "
                f"{int(judged[judged < sizes].max())} of {int(sizes.max())} hits: "
                "JudgeEvidence needs the same depth or more"
            )
        head = np.arange(int(judged.sum())) - np.repeat(offsets[:-1], judged)
        found = np.asarray(lists.flatten(), np.float64)[head < np.repeat(sizes, judged)]
        return np.round(found, DECIMALS)


def _offsets(rows: Ints, some: Ints, num_rows: int) -> Ints:
    found: Ints = np.searchsorted(rows[some], np.arange(num_rows + 1))
    return found


def _lists(
    ids: pa.Array, scores: npt.NDArray[Any], rows: Ints, some: Ints, num_rows: int
) -> pa.Array:
    """HITS at the places `some`, which are sorted by row."""
    offsets = _offsets(rows, some, num_rows)
    return pack_flat(ids.take(pa.array(some)), scores[some], ranks(np.diff(offsets)), offsets)


def _floats(values: Floats, rows: Ints, some: Ints, num_rows: int) -> pa.Array:
    offsets = pa.array(_offsets(rows, some, num_rows), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values[some], pa.float32()))
