"""A second search and reading, where a model that read the papers asks for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, ClassVar

import pyarrow as pa

from srrag.answer.select.papers import GatherPapers
from srrag.answer.write.read_and_answer import ReadAndAnswer
from srrag.core.pipeline import Pipeline
from srrag.core.rows import Row
from srrag.core.schema import HITS, QUESTIONS, empty_value
from srrag.core.step import Function, Place, Step

_REVISES = tuple(
    name for step in (GatherPapers, ReadAndAnswer) for name in step.writes.names if name != "reject"
)


@dataclass(frozen=True, kw_only=True)
class SearchAgain(Step):
    """Search for each text in `searches` by the pipeline `search`, and answer from all found.

    This step follows ReadAndAnswer(searches=true). The papers that the first answer used come
    first, then the best `k` windows of each search in turn, then what was found before; `read`
    answers anew, and the new answer counts. Questions without `searches` stay as they are, and so
    does a question whose search or second reading failed. `searches` keeps what was searched for.
    """

    search: Pipeline
    papers: GatherPapers
    read: ReadAndAnswer
    k: int = 20

    reads: ClassVar[tuple[str, ...]] = ("text", "options", "hits", *_REVISES)
    revises: ClassVar[tuple[str, ...]] = tuple(name for name in _REVISES if name != "searches")
    writes: ClassVar[pa.Schema] = pa.schema([])

    def __post_init__(self) -> None:
        """Raise ValueError if `k` is below 1, or the second reading would ask for a third."""
        if self.k < 1:
            raise ValueError("k must be at least 1")
        if self.read.searches:
            raise ValueError("read.searches: there is no third search")

    def needs(self) -> tuple[str, ...]:
        """What the search needs, and the papers."""
        return tuple(dict.fromkeys((*self.search.needs(), *self.papers.needs())))

    def identity(self) -> dict[str, Any]:
        """The identities of the search and of the reading."""
        return {"search": self.search.identity(), "read": self.read.identity()}

    def open(self, at: Place) -> Function:
        """Open the search, the papers and the reading."""
        search, papers, read = (step.open(at) for step in (self.search, self.papers, self.read))
        names = [*self.revises, "searches"]

        def run(batch: pa.Table) -> pa.Table:
            rows = batch.select(names).to_pylist()
            asked = [
                (n, text)
                for n, row in enumerate(rows)
                for text in row["searches"]
                if any(char.isalnum() for char in text)
            ]
            if not asked:
                return batch
            made = search(_questions([text for _, text in asked]))
            found: dict[int, list[list[Row]]] = {}
            for (n, _), hits in zip(asked, made["hits"].to_pylist(), strict=True):
                found.setdefault(n, []).append(hits[: self.k])
            again = batch.take(pa.array([*found]))
            hits = [
                list(merged(rows[n], lists, before))
                for (n, lists), before in zip(found.items(), again["hits"].to_pylist(), strict=True)
            ]
            again = again.drop_columns([*names, "hits"]).append_column("hits", pa.array(hits, HITS))
            for n, row in zip(found, read(papers(again)).to_pylist(), strict=True):
                if row["reject"] is None:
                    rows[n] = {name: row[name] for name in self.revises}
            for name in self.revises:
                place = batch.column_names.index(name)
                item = batch.schema.field(name)
                column = pa.array([row[name] for row in rows], item.type)
                batch = batch.set_column(place, item, column)
            return batch

        return run


def _questions(texts: Sequence[str]) -> pa.Table:
    blank = {item.name: empty_value(item.type) for item in QUESTIONS} | {"reject": None}
    return pa.Table.from_pylist([blank | {"text": text} for text in texts], schema=QUESTIONS)


def merged(answered: Row, found: Sequence[Sequence[Row]], before: Sequence[Row]) -> Iterator[Row]:
    """The hits of a second reading: of the papers used, of each search in turn, and of the first.

    Each window comes once, with the score of its own search.
    """
    used = {name for each in answered["sentences"] for name in each["evidence_ids"]}
    used |= {each["evidence_id"] for each in answered["findings"]}
    kept = [
        {"unit_id": item["unit_id"], "score": item["score"]}
        for item in answered["evidence"]
        if item["evidence_id"] in used
    ]
    in_turn = (hit for hits in zip_longest(*found) for hit in hits if hit is not None)
    every: dict[str, Row] = {}
    for hit in chain(kept, in_turn, before):
        every.setdefault(hit["unit_id"], hit)
    for rank, hit in enumerate(every.values(), 1):
        yield {"unit_id": hit["unit_id"], "score": hit["score"], "rank": rank}
