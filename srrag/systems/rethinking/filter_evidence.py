"""Judge by a trained filter whether hits hold evidence for the question, and keep those that do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.hits import unpack_hits
from srrag.core.provenance import Fitted
from srrag.core.rows import Row, with_columns
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step
from srrag.core.units import open_units
from srrag.model.filter import DECIMALS, load_filter, read_facts
from srrag.storage.manifest import sealed_revision


@dataclass(frozen=True, kw_only=True)
class JudgeEvidence(Step):
    """Write p(yes | question, passage), 0 to 1, of the first `depth` hits, in their order.

    Rethinking RAG in medicine, section 4.2. `FilterEvidence` keeps by it. As a separate step, it
    lets filters of several depths and thresholds share one judgement of each pair. `model` is a
    folder written by `srrag train_filter`; its content is part of the identity, its path is not.
    """

    model: str = field(default="", compare=False, metadata={"identity": False})
    hits: str = "hits_ranked"
    text: str = "text"
    """The column that the passages are judged for."""
    into: str = "evidence_probability"
    depth: int = 32
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError for a depth below 1."""
        if self.depth < 1:
            raise ValueError(f"depth is {self.depth}: at least one hit has to be judged")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question and the hits to judge."""
        return (self.text, self.hits)

    @property
    def writes(self) -> pa.Schema:
        """A list of probabilities, one for each hit that is judged."""
        return pa.schema([pa.field(self.into, pa.list_(pa.float32()))])

    def needs(self) -> tuple[str, ...]:
        """The units index, for the texts of the windows."""
        return (self.units,)

    def identity(self) -> dict[str, Any]:
        """The content of the filter."""
        return {"model": sealed_revision(filter_folder(self.model))}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions of the pairs that the filter learned from, or was calibrated on."""
        return (read_facts(filter_folder(self.model)).fitted,)

    def open(self, at: Place) -> Function:
        """Check and load the filter; raises ValueError that names a file that was changed."""
        loaded = load_filter(filter_folder(self.model), at.device)
        units = open_units(at, self.units)

        def run(batch: pa.Table) -> pa.Table:
            ids, _, offsets = unpack_hits(batch[self.hits])
            rows = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            head = np.arange(len(ids)) - offsets[rows] < self.depth
            asked = batch[self.text].take(pa.array(rows[head])).to_pylist()
            shown = units.take(ids.filter(pa.array(head)).to_pylist(), ("text",))["text"]
            found = loaded.probabilities(asked, shown.to_pylist())
            ends = np.concatenate([[0], np.minimum(np.diff(offsets), self.depth).cumsum()])
            values = pa.array(found, pa.float32())
            lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)
            return batch.append_column(self.writes.field(0), lists)

        return run


def filter_folder(model: str) -> Path:
    """The folder of a filter; raises ValueError if `model` is empty."""
    if not model:
        raise ValueError("model: the folder of a filter is missing; `srrag train_filter`")
    return Path(model)


@dataclass(frozen=True, kw_only=True)
class FilterEvidence(Step):
    """Of the first `depth` hits, keep those with a high enough p(yes | question, passage).

    Rethinking RAG in medicine, section 4.2. `JudgeEvidence` wrote p to `probability`. The column
    `into` holds the kept hits with their order and scores; `<into>_rejected` holds the rejected
    ones, scored and sorted by p. Hits below `depth` are dropped unjudged. `model` is the folder of
    the filter that judged; its content is part of the identity, its path is not. A null `threshold`
    takes the filter's own.
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
        """The rejected hits, and those kept."""
        names = (f"{self.into}_rejected", self.into)
        return pa.schema([pa.field(name, HITS) for name in names])

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
            found, judged = (batch[name].to_pylist() for name in (self.hits, self.probability))
            pairs = zip(found, judged, strict=True)
            rows = [self._parted(hits, each, least) for hits, each in pairs]
            columns = [pa.array([row[place] for row in rows], HITS) for place in (0, 1)]
            return with_columns(batch, pa.table(columns, schema=self.writes))

        return run

    def _parted(
        self, hits: Sequence[Row], judged: Sequence[float], least: float
    ) -> tuple[list[Row], list[Row]]:
        """The rejected hits of a question, and the kept ones; ValueError if too few were judged."""
        head = hits[: self.depth]
        if len(judged) < len(head):
            raise ValueError(
                f"depth is {self.depth}, but {self.probability} holds no more than {len(judged)} "
                f"of {len(head)} hits: JudgeEvidence needs the same depth or more"
            )
        pairs = [(hit, round(p, DECIMALS)) for hit, p in zip(head, judged, strict=False)]
        rejected = sorted((pair for pair in pairs if pair[1] < least), key=lambda pair: -pair[1])
        kept = (hit for hit, p in pairs if p >= least)
        return _ranked({**hit, "score": p} for hit, p in rejected), _ranked(kept)


def _ranked(hits: Iterable[Row]) -> list[Row]:
    return [{**hit, "rank": rank} for rank, hit in enumerate(hits, start=1)]
