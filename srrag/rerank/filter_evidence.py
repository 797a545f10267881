"""Keep the hits that a trained filter judges to hold evidence for the question."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.hits import pack_flat, ranks, unpack_hits
from srrag.model.filter import load_filter
from srrag.schema import HITS
from srrag.step import Function, Place, Step
from srrag.storage.sealed_folder import sealed_revision
from srrag.units import Units, open_units

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FilterEvidence(Step):
    """Of the first `depth` hits, keep those with a high enough p(yes | question, passage).

    Rethinking RAG in medicine, section 4.2. The column `into` holds the kept hits with their order
    and scores; `<into>_rejected` holds the rejected ones, scored and sorted by p;
    `<into>_probability` holds the p of each kept hit. Hits below `depth` are dropped without
    judgement. `model` is a folder written by `srrag train_filter`; its content is part of the
    identity, its path is not. A null `threshold` takes the filter's own.

    `abstain` is the adaptive mode: if even the best p is below `answer_threshold` (null: the
    filter's own), no hit is passed on, and the answer is that the evidence is insufficient.
    """

    model: str = field(default="", compare=False, metadata={"identity": False})
    hits: str = "hits_ranked"
    text: str = "text"
    """The column that the passages are judged for."""
    into: str = "hits"
    depth: int = 32
    threshold: float | None = None
    abstain: bool = False
    answer_threshold: float | None = None
    order: Literal["given", "probability"] = "given"
    """`probability` sorts the kept hits by p, and p becomes their score."""
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError for thresholds outside 0…1, a depth below 1, or an unknown order."""
        for name in ("threshold", "answer_threshold"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}: a probability, or null for the filter's own")
        if self.depth < 1:
            raise ValueError(f"depth is {self.depth}: at least one hit has to be judged")
        if self.order not in ("given", "probability"):
            raise ValueError(f"order is {self.order!r}: one of given, probability")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question and the hits to judge."""
        return (self.text, self.hits)

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

    def needs(self) -> tuple[str, ...]:
        """The units index, for the texts of the windows."""
        return (self.units,)

    def identity(self) -> dict[str, Any]:
        """The content of the filter."""
        return {"model": sealed_revision(self.folder)}

    @property
    def folder(self) -> Path:
        """Folder of the filter; raises ValueError if `model` is empty."""
        if not self.model:
            raise ValueError("model: the folder of a filter is missing; `srrag train_filter`")
        return Path(self.model)

    def open(self, at: Place) -> Function:
        """Check and load the filter; raises ValueError that names a file that was changed."""
        loaded = load_filter(self.folder, at.device)
        units = open_units(at, self.units)
        decision = loaded.facts.decision
        least = decision.threshold if self.threshold is None else self.threshold
        enough = decision.answer_threshold
        if self.answer_threshold is not None:
            enough = self.answer_threshold

        def run(batch: pa.Table) -> pa.Table:
            ids, scores, offsets = unpack_hits(batch[self.hits])
            rows = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            head = np.arange(len(ids)) - offsets[rows] < self.depth
            ids, scores, rows = ids.filter(pa.array(head)), scores[head], rows[head]
            found = loaded.probabilities(
                batch[self.text].take(pa.array(rows)).to_pylist(), passages(units, ids)
            )
            keep = found >= least
            if self.abstain:
                best = np.zeros(batch.num_rows)
                np.maximum.at(best, rows, found)
                keep &= (best >= enough)[rows]
            by_probability = np.lexsort((-found, rows))
            kept = by_probability if self.order == "probability" else np.arange(len(rows))
            kept, rejected = kept[keep[kept]], by_probability[~keep[by_probability]]
            given = found if self.order == "probability" else scores
            columns = [
                _lists(ids, found, rows, rejected, batch.num_rows),
                _floats(found, rows, kept, batch.num_rows),
                _lists(ids, given, rows, kept, batch.num_rows),
            ]
            for item, column in zip(self.writes, columns, strict=True):
                batch = batch.append_column(item, column)
            return batch

        return run


def passages(units: Units, ids: pa.Array) -> list[str]:
    """The text of each window."""
    texts: list[str] = units.take(ids.to_pylist(), ("text",))["text"].to_pylist()
    return texts


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
