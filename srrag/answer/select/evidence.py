"""The evidence block of a question: its best windows, few of one chunk (SR-RAG, Table S3)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.hits import unpack_hits
from srrag.core.rows import Row, with_columns
from srrag.core.schema import EVIDENCE, LEFT_OUT, non_null
from srrag.core.spec import evidence_id
from srrag.core.standing import COPY, HIDDEN, Standings
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units


class Hit(NamedTuple):
    """A window of a ranking, with its chunk and grade and the publication status of its paper."""

    unit_id: str
    score: float
    chunk: str
    grade: str
    standing: str
    link: str


@dataclass(frozen=True, kw_only=True)
class SelectEvidence(Step):
    """Make the evidence block from the final ranking in `hits`.

    Table S3: the `k` = 12 best windows, at most `max_per_chunk` = 3 of one chunk. Where fewer
    are found, fewer are given; the block is never filled up.

    Soft quota: where fewer than `quota` windows of grade A made the block, the best one
    outside takes the place of the last of another grade, if it scores at most `quota_margin` less.
    The paper does not say how large the margin is. The default is the span
    u_A − u_E of Table 1, the most that a grade can weigh. It is a difference of logits, so leave
    `quota` at 0 with other scores (rank fusion, blends).

    Windows of retracted and deleted papers are not taken (`status` "hide"), nor those of a paper
    whose later version was found too; `left_out` names the papers that would have been. With "show"
    they are taken like any other. Each piece of evidence has its paper's `standing`, "" if the
    build has no stage of that name.
    """

    version: ClassVar[int] = 2

    reads: ClassVar[tuple[str, ...]] = ("hits",)
    writes: ClassVar[pa.Schema] = non_null(("left_out", LEFT_OUT), ("evidence", EVIDENCE))

    k: int = 12
    max_per_chunk: int = 3
    quota: int = 0
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
        if not self.quota_margin >= 0:
            raise ValueError("quota_margin is at least 0")
        if self.status not in ("hide", "show"):
            raise ValueError(f"status is {self.status!r}: it can be 'hide' or 'show'")

    def open(self, at: Place) -> Function:
        """Map the windows of the build, and read the standing of its papers."""
        return self.bind(Units(at.artifact(self.units)), Standings.of(at, self.standing))

    def needs(self) -> tuple[str, ...]:
        """The units index, and the standing of papers where it is built."""
        return (self.units, self.standing)

    def bind(self, windows: Units, standings: Standings | None = None) -> Function:
        """The function on tables over these windows."""
        known = standings or Standings(None)

        def run(batch: pa.Table) -> pa.Table:
            blocks = [self._block(hits, windows) for hits in _rankings(batch, windows, known)]
            taken = [hit for kept, gone in blocks for hit in (*kept, *gone)]
            units = windows.take_evidence([hit.unit_id for hit in taken]).to_pylist()
            items = iter([_item(*each) for each in zip(taken, units, strict=True)])
            rows = [
                {
                    "evidence": [next(items) for _ in kept],
                    "left_out": _papers([next(items) for _ in gone]),
                }
                for kept, gone in blocks
            ]
            return with_columns(batch, pa.Table.from_pylist(rows, schema=self.writes))

        return run

    def _block(self, hits: list[Hit], windows: Units) -> tuple[list[Hit], list[Hit]]:
        """The block of a question, and what would be in it but must not be cited."""
        kept = self._taken(hits)
        if self.status == "show":
            return kept, []
        hidden = {hit.unit_id for hit in hits if hit.standing in HIDDEN}
        if any(hit.standing == "superseded" for hit in hits):
            pmids = windows.take_evidence([hit.unit_id for hit in hits])["pmid"].to_pylist()
            later = {f"pmid:{pmid}" for pmid in pmids if pmid}
            hidden |= {h.unit_id for h in hits if h.standing == "superseded" and h.link in later}
        gone = [hit for hit in kept if hit.unit_id in hidden]
        return self._taken([h for h in hits if h.unit_id not in hidden]) if gone else kept, gone

    def _taken(self, hits: Sequence[Hit]) -> list[Hit]:
        """The hits, best first, that make the block."""
        pool = limit(hits, self.max_per_chunk)
        return fill_quota([*islice(pool, self.k)], pool, self.quota, self.quota_margin)


def limit(hits: Sequence[Hit], max_per_chunk: int) -> Iterator[Hit]:
    """Yield the first `max_per_chunk` hits of each chunk, in order."""
    seen: Counter[str] = Counter()
    for hit in hits:
        seen[hit.chunk] += 1
        if seen[hit.chunk] <= max_per_chunk:
            yield hit


def fill_quota(block: Sequence[Hit], others: Iterable[Hit], quota: int, margin: float) -> list[Hit]:
    """Fill the quota of a block, best first, with the best of the `others` that are of grade A.

    Each replaces the last one of another grade and goes to the end, unless it scores more than
    `margin` below the one that it would replace.
    """
    block = [*block]
    for hit in others:
        if sum(each.grade == "A" for each in block) >= quota:
            break
        if hit.grade == "A":
            last = max(n for n, each in enumerate(block) if each.grade != "A")
            if hit.score < block[last].score - margin:
                break
            block = [*block[:last], *block[last + 1 :], hit]
    return block


def _rankings(batch: pa.Table, windows: Units, known: Standings) -> list[list[Hit]]:
    """The hits of each question, best first, without those of a copy of a paper."""
    ids, scores, offsets = unpack_hits(batch["hits"])
    ranks = pc.struct_field(pc.list_flatten(batch["hits"]), "rank")
    order = np.lexsort((np.asarray(ranks), np.repeat(np.arange(len(batch)), np.diff(offsets))))
    names, scores = ids.take(pa.array(order)).to_pylist(), scores[order]
    said = windows.take(names, ("parent_id", "grade", "doc_id"))
    columns = (said["parent_id"].to_pylist(), said["grade"].to_pylist())
    standings = known.find(said["doc_id"].to_pylist())
    hits = [*map(Hit, names, scores.tolist(), *columns, *standings)]
    blocks = [hits[start:end] for start, end in pairwise(offsets.tolist())]
    return [[hit for hit in block if hit.standing != COPY] for block in blocks]


def _item(hit: Hit, unit: Row) -> Row:
    return unit | {
        "evidence_id": evidence_id("window", hit.unit_id, unit["text"]),
        "kind": "window",
        "score": hit.score,
        "standing": hit.standing,
        "standing_link": hit.link,
    }


def _papers(items: Sequence[Row]) -> list[Row]:
    """Each paper once, as LEFT_OUT names it."""
    papers: list[Row] = []
    for item in items:
        paper = {field.name: item[field.name] for field in LEFT_OUT.value_type}
        papers += [] if paper in papers else [paper]
    return papers
