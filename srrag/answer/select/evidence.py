"""The evidence block of a question: its best windows, few of one chunk (SR-RAG, Table S3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from srrag.core.ids import evidence_id
from srrag.core.schema import EVIDENCE, LEFT_OUT
from srrag.core.standing import HIDDEN, Standings
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_TEXT = pa.string()


class Windows(Protocol):
    """The windows of an index with what their documents say of them."""

    def take(self, unit_ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """Return columns of the windows, a row an id in the order given."""
        ...

    def take_evidence(self, unit_ids: Sequence[str]) -> pa.Table:
        """Return EVIDENCE_COLUMNS, a row an id in the order given; ValueError for an unknown id."""
        ...


@dataclass(frozen=True, kw_only=True)
class SelectEvidence(Step):
    """Make the evidence block from the final ranking in `hits`.

    Table S3: the `k` = 12 best windows, at most `max_per_chunk` = 3 of one chunk. Where fewer
    are found, or fewer score at least `min_score`, fewer are given; the block is never filled up.

    Soft quota: where fewer than `quota` windows of `quota_grade` made the block, the best one
    outside takes the place of the last of another grade, if it scores at most `quota_margin` less;
    never below `min_score`. The paper does not say how large the margin is. The default is the span
    u_A − u_E of Table 1, the most that a grade can weigh. It is a difference of logits, so leave
    `quota` at 0 with other scores (rank fusion, blends).

    Windows of retracted and deleted papers are not taken (`status` "hide"), nor those of a paper
    whose later version was found too; `left_out` names the papers that would have been. With "show"
    they are taken like any other. Each piece of evidence has its paper's `standing`, "" if the
    build has no stage of that name.
    """

    version: ClassVar[int] = 2

    reads: ClassVar[tuple[str, ...]] = ("hits",)
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("left_out", LEFT_OUT, nullable=False),
            pa.field("evidence", EVIDENCE, nullable=False),
        ]
    )

    k: int = 12
    max_per_chunk: int = 3
    min_score: float | None = None
    quota: int = 0
    quota_grade: str = "A"
    quota_margin: float = 0.5151
    units: str = "units"
    standing: str = "standing"
    status: str = "hide"

    def __post_init__(self) -> None:
        """Raise ValueError for an empty block, or a quota that no block can fill."""
        if self.k < 1 or self.max_per_chunk < 1:
            raise ValueError("k and max_per_chunk must be at least 1")
        if not 0 <= self.quota <= self.k:
            raise ValueError(f"quota is {self.quota}: at least 0 and at most k = {self.k}")
        if self.quota_grade not in tuple("ABCDE") or not self.quota_margin >= 0:
            raise ValueError("quota_grade is a letter of A to E, quota_margin at least 0")
        if self.status not in ("hide", "show"):
            raise ValueError(f"status is {self.status!r}: it can be 'hide' or 'show'")

    def open(self, at: Place) -> Function:
        """Map the windows of the build, and read the standing of its papers."""
        return self.bind(Units(at.artifact(self.units)), Standings.of(at, self.standing))

    def needs(self) -> tuple[str, ...]:
        """The units index, and the standing of papers where it is built."""
        return (self.units, self.standing)

    def bind(self, windows: Windows, standings: Standings | None = None) -> Function:
        """The function on tables over these windows."""
        known = standings or Standings(None)

        def run(batch: pa.Table) -> pa.Table:
            hits = batch.column("hits").combine_chunks()
            rows = pc.list_parent_indices(hits).to_numpy().astype(np.int64)
            flat = hits.flatten()
            ids = pc.struct_field(flat, "unit_id")
            listed = ids.to_pylist()
            said = windows.take(listed, ("parent_id", "grade", "doc_id"))
            ranks = pc.struct_field(flat, "rank").to_numpy().astype(np.int64)
            scores = pc.struct_field(flat, "score")
            values = scores.to_numpy().astype(np.float64)
            told, links = known.find(said["doc_id"].to_pylist())
            hidden = np.zeros(len(rows), bool)
            if self.status == "hide":
                hidden |= np.array([each in HIDDEN for each in told], bool)
                if "superseded" in told:
                    found = windows.take_evidence(listed)["pmid"].to_pylist()
                    hidden |= _succeeded(rows, told, links, found)
            kept = self._select(rows, ranks, values, said, np.ones(len(rows), bool))
            gone = kept[hidden[kept]]
            if gone.size:
                kept = self._select(rows, ranks, values, said, ~hidden)

            def taken(places: Ints) -> pa.Table:
                units = windows.take_evidence([listed[n] for n in places])
                units = units.append_column("standing", pa.array([told[n] for n in places], _TEXT))
                return units.append_column(
                    "standing_link", pa.array([links[n] for n in places], _TEXT)
                )

            evidence = _lists(taken(kept), scores.take(pa.array(kept)), rows[kept], batch.num_rows)
            left_out = _papers(taken(gone), rows[gone], batch.num_rows)
            return _with_column(_with_column(batch, "evidence", evidence), "left_out", left_out)

        return run

    def _select(
        self, rows: Ints, ranks: Ints, scores: Floats, said: pa.Table, allowed: NDArray[np.bool_]
    ) -> Ints:
        """Positions of the allowed hits that make the blocks, by row and rank."""
        good = allowed if self.min_score is None else allowed & (scores >= self.min_score)
        some = np.flatnonzero(good)
        chunks = _codes(said.column("parent_id"))
        pool = some[limit(rows[some], ranks[some], chunks[some], self.max_per_chunk)]
        kept = pool[_occurrence(rows[pool], np.zeros(len(pool), np.int64)) < self.k]
        if self.quota == 0:
            return kept
        wanted = np.asarray(pc.equal(said.column("grade"), self.quota_grade))
        blocks = [kept[:0]]
        for row in np.unique(rows[kept]):
            block, others = kept[rows[kept] == row], np.setdiff1d(pool[rows[pool] == row], kept)
            others = others[np.argsort(ranks[others], kind="stable")]
            blocks.append(fill_quota(block, others, wanted, scores, self.quota, self.quota_margin))
        return np.concatenate(blocks)


def limit(rows: Ints, ranks: Ints, chunks: Ints, max_per_chunk: int) -> Ints:
    """Return the positions of the first `max_per_chunk` hits of each chunk, by row and rank.

    `rows` is the question of each hit, `ranks` its place in that question's ranking (equal ones
    keep their order), `chunks` the number of its chunk.
    """
    order = np.lexsort((np.arange(len(rows)), ranks, rows))
    kept: Ints = order[_occurrence(rows[order], chunks[order]) < max_per_chunk]
    return kept


def fill_quota(
    block: Ints, others: Ints, wanted: NDArray[np.bool_], scores: Floats, quota: int, margin: float
) -> Ints:
    """Fill the quota of a block, best first, with the best wanted ones of the `others`.

    Each replaces the last unwanted one of the block and goes to its end, unless it scores more than
    `margin` below the one that it would replace.
    """
    outside = others[wanted[others]]
    while outside.size and wanted[block].sum() < quota:
        last = np.flatnonzero(~wanted[block])[-1]
        if scores[outside[0]] < scores[block[last]] - margin:
            break
        block = np.append(np.delete(block, last), outside[0])
        outside = outside[1:]
    return block


def _occurrence(rows: Ints, codes: Ints) -> Ints:
    """Count for each position how often its pair occurred before."""
    by_pair = np.lexsort((np.arange(len(rows)), codes, rows))
    first = np.ones(len(rows), bool)
    first[1:] = (np.diff(rows[by_pair]) != 0) | (np.diff(codes[by_pair]) != 0)
    positions = np.arange(len(rows))
    begins = np.maximum.accumulate(np.where(first, positions, 0))
    seen = np.empty(len(rows), np.int64)
    seen[by_pair] = positions - begins
    return seen


def _codes(column: pa.ChunkedArray) -> Ints:
    encoded = column.combine_chunks().dictionary_encode()
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _lists(units: pa.Table, scores: pa.Array, rows: Ints, num_rows: int) -> pa.Array:
    """The evidence column: the units of each row, which come sorted by row."""
    ids = zip(units.column("unit_id").to_pylist(), units.column("text").to_pylist(), strict=True)
    columns = {name: units.column(name) for name in units.column_names if name != "parent_id"}
    columns["evidence_id"] = pa.array([evidence_id("window", *each) for each in ids], pa.string())
    columns["kind"] = pa.array(["window"] * units.num_rows, pa.string())
    columns["score"] = scores
    item = EVIDENCE.value_type
    arrays = [
        columns[field.name].combine_chunks().cast(field.type)
        if isinstance(columns[field.name], pa.ChunkedArray)
        else columns[field.name].cast(field.type)
        for field in item
    ]
    values = pa.StructArray.from_arrays(arrays, fields=list(item))
    offsets = np.searchsorted(rows, np.arange(num_rows + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=EVIDENCE)


def _succeeded(
    rows: Ints, told: Sequence[str], links: Sequence[str], pmids: Sequence[str]
) -> NDArray[np.bool_]:
    """Whether each hit is of a paper whose later version was found for the same question."""
    found = {(row, f"pmid:{pmid}") for row, pmid in zip(rows.tolist(), pmids, strict=True) if pmid}
    pairs = zip(rows.tolist(), told, links, strict=True)
    return np.array([t == "superseded" and (row, link) in found for row, t, link in pairs], bool)


def _papers(units: pa.Table, rows: Ints, num_rows: int) -> pa.Array:
    """The LEFT_OUT column: each paper once a question."""
    names = [field.name for field in LEFT_OUT.value_type]
    found: list[list[dict[str, str]]] = [[] for _ in range(num_rows)]
    for row, paper in zip(rows.tolist(), units.select(names).to_pylist(), strict=True):
        if paper not in found[row]:
            found[row].append(paper)
    return pa.array(found, LEFT_OUT)


def _with_column(batch: pa.Table, name: str, column: pa.Array) -> pa.Table:
    field = pa.field(name, column.type, nullable=False)
    if name in batch.column_names:
        return batch.set_column(batch.column_names.index(name), field, column)
    return batch.append_column(field, column)
