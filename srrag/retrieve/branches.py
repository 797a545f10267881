"""Search a question in several wordings, each separately, and pool their hits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.fusion import Reduce, pool
from srrag.core.hits import Ints, codes, pack_flat, ranks, unpack_hits
from srrag.core.pipeline import Pipeline, PipelineSlice, added, chain
from srrag.core.rows import with_columns
from srrag.core.schema import FOUND, HITS, QUESTIONS, REJECT, empty_value
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units

Against = Literal["branch", "question", "both"]
PoolKey = Literal["unit", "document", "pmid"]
QUESTION = "question"
"""The branch of the question in its own words."""
ALL_GRADES = "all"
"""The track of every find, since branches search all grades."""


@dataclass(frozen=True, kw_only=True)
class SearchBranches(Step):
    """Search for the question and for each text of the column `branches`, and pool the hits.

    With `own` off, only the texts of `branches` are searched for, if there are any. Each branch
    passes as a separate row through `search`, then through `rerank` against its own text (`against:
    branch`) or the question's (`question`). BioGen reranks each branch against itself, pools by
    PubMed article with the highest score, and reranks no more (sections 7.1 and 8.1). With `both` a
    branch chooses its hits against itself, and then these are scored against the question, since
    scores against different texts do not compare well. Each `key` counts once, as its best
    window: the window (`unit`), the corpus's own document, or the PubMed article (`pmid`; a
    document without a PMID counts by its own id). `reduce` says how to join the scores of a key
    (see `srrag.algo.fusion`), and the best `keep` go on; 0 keeps all. `branches` is "" for the
    question alone. Blank and repeated texts are not searched. The columns that `search` and
    `rerank` write stay inside; `found` says which branches found each window, with rank and score.
    A branch that is rejected rejects its question.
    """

    search: Pipeline
    rerank: tuple[Step, ...] = ()
    branches: str = "reformulations"
    own: bool = True
    against: Against = "branch"
    key: PoolKey = "pmid"
    reduce: Reduce = "max"
    keep: int = 0
    into: str = "hits_pooled"
    found: str = "found"
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError if the inner steps do not fit together, or a setting is unknown."""
        object.__setattr__(self, "rerank", chain(self.rerank))
        for name, known in (("against", Against), ("key", PoolKey), ("reduce", Reduce)):
            if (given := getattr(self, name)) not in get_args(known):
                raise ValueError(f"{name} is {given!r}: it can be {', '.join(get_args(known))}")
        if self.keep < 0:
            raise ValueError(f"keep is {self.keep}: a number of windows, or 0 for all")
        if not self.search.rank or self.search.answer:
            raise ValueError("search: a pipeline with `rank` and without `answer` is needed")
        have = set(self.search.writes.names)
        for step in self.rerank:
            for name in step.reads:
                if name not in have:
                    raise ValueError(
                        f"rerank: {type(step).__name__} reads column {name!r}, which no step "
                        "before wrote"
                    )
            for item in added(step):
                if item.name in have:
                    raise ValueError(f"rerank: {type(step).__name__} would overwrite {item.name!r}")
                have.add(item.name)
        if self.rerank and not added(self.rerank[-1])[-1].type.equals(HITS):
            raise ValueError("rerank: its last step has to write hits")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question, and the texts of its branches."""
        return (*QUESTIONS.names, *filter(None, (self.branches,)))

    @property
    def writes(self) -> pa.Schema:
        """Every find of every branch, and the pooled hits."""
        return pa.schema(
            [
                pa.field(self.found, FOUND),
                pa.field(self.into, HITS),
                pa.field("reject", REJECT),
            ]
        )

    def needs(self) -> tuple[str, ...]:
        """What the inner steps and the pool need."""
        inner = [name for step in (self.search, *self.rerank) for name in step.needs()]
        return tuple(dict.fromkeys([*inner, *([] if self.key == "unit" else [self.units])]))

    def identity(self) -> dict[str, Any]:
        """The identities of the inner steps."""
        return {"search": self.search.identity(), "rerank": self._after().identity()}

    def open(self, at: Place) -> Function:
        """Open the inner steps, and map the documents unless the key is the window."""
        search, rerank = self.search.open(at), self._after().open(at)
        units = None if self.key == "unit" else open_units(at, self.units)
        ranked = added(self.rerank[-1])[-1].name if self.rerank else "hits"

        def run(batch: pa.Table) -> pa.Table:
            names, owners, texts = self._branches(batch)
            asked = batch.select(QUESTIONS.names).take(pa.array(owners))
            found = search(_worded(asked, texts))
            if self.rerank:
                questions = asked["text"].to_pylist()
                own = questions if self.against == "question" else texts
                searched, found = found, rerank(_worded(found, own))
                if self.against == "both":
                    kept = with_columns(searched, found.select([ranked]).rename_columns(["hits"]))
                    found = rerank(_worded(kept, questions))
            lists = found[ranked].combine_chunks()
            by_branch = _by_branch(lists, names, owners)
            pooled = self._pooled(*by_branch, batch.num_rows, units)
            finds = _finds(lists, names, owners, batch.num_rows)
            rejects = _rejects(batch, found, owners)
            return with_columns(batch, pa.table((finds, pooled, rejects), schema=self.writes))

        return run

    def _after(self) -> PipelineSlice:
        return PipelineSlice(steps=self.rerank, before=self.search.steps)

    def _pooled(
        self, lists: list[pa.ChunkedArray], rows: list[Ints], num_rows: int, units: Units | None
    ) -> pa.Array:
        """Pool HITS columns, whose lists belong to these rows, into a HITS column of `num_rows`."""
        columns = [unpack_hits(column) for column in lists]
        sizes = [np.diff(offsets) for _, _, offsets in columns]
        ids = pa.concat_arrays([found for found, _, _ in columns])
        names = ids
        if units is not None:
            named = units.document_keys if self.key == "document" else units.article_keys
            names = named(ids.to_pylist())
        _, (key,) = codes([names])
        pooled = pool(
            np.concatenate([np.repeat(r, n) for r, n in zip(rows, sizes, strict=True)]),
            np.repeat(np.arange(len(sizes)), [int(size.sum()) for size in sizes]),
            key,
            np.concatenate([ranks(size) for size in sizes]),
            np.concatenate([scores for _, scores, _ in columns]),
            reduce=self.reduce,
        )
        kept = pooled.rank <= (self.keep or len(pooled.rank))
        offsets = np.searchsorted(pooled.query[kept], np.arange(num_rows + 1))
        found = ids.take(pa.array(pooled.find[kept]))
        return pack_flat(found, pooled.score[kept], pooled.rank[kept], offsets)

    def _branches(self, batch: pa.Table) -> tuple[list[str], Ints, list[str]]:
        """The name, the row and the text of each branch, row by row."""
        questions = batch["text"].to_pylist()
        others = batch[self.branches].to_pylist() if self.branches else [[]] * len(questions)
        names, owners, texts = [], [], []
        for row, (question, versions) in enumerate(zip(questions, others, strict=True)):
            own = self.own or not any(map(_plain, versions))
            told = {_plain(question): (QUESTION, question)} if own else {}
            for number, text in enumerate(versions, start=1):
                if _plain(text):
                    told.setdefault(_plain(text), (f"version {number}", text))
            for name, text in told.values():
                names.append(name)
                owners.append(row)
                texts.append(text)
        return names, np.array(owners, np.int64), texts


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _worded(table: pa.Table, texts: list[str]) -> pa.Table:
    place = table.column_names.index("text")
    return table.set_column(place, table.schema.field("text"), pa.array(texts, pa.string()))


def _by_branch(
    lists: pa.Array, names: list[str], owners: Ints
) -> tuple[list[pa.ChunkedArray], list[Ints]]:
    """The lists of each branch by its name, the question's first, and their rows."""
    columns, rows = [], []
    labels = np.array(names, dtype=object)
    for name in sorted(set(names), key=lambda each: (each != QUESTION, each)) or [QUESTION]:
        some = np.flatnonzero(labels == name)
        columns.append(pa.chunked_array([lists.take(pa.array(some))]))
        rows.append(owners[some])
    return columns, rows


def _finds(lists: pa.Array, names: list[str], owners: Ints, num_rows: int) -> pa.Array:
    """FOUND: a row for each window of each branch."""
    sizes = np.asarray(pc.list_value_length(lists), np.int64)
    flat = lists.flatten()
    columns = {
        "unit_id": pc.struct_field(flat, "unit_id"),
        "channel": pa.array(np.repeat(np.array(names, dtype=object), sizes), pa.string()),
        "track": pa.repeat(ALL_GRADES, len(flat)),
        "round": np.ones(len(flat), np.int32),
        "rank": ranks(sizes).astype(np.int32),
        "score": pc.struct_field(flat, "score"),
    }
    fields = list(FOUND.value_type)
    items = pa.StructArray.from_arrays(
        [
            pa.array(columns[item.name]).cast(item.type)
            if item.name in columns
            else pa.repeat(empty_value(item.type), len(flat)).cast(item.type)
            for item in fields
        ],
        fields=fields,
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)])[np.searchsorted(owners, range(num_rows + 1))]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items).cast(FOUND)


def _rejects(batch: pa.Table, found: pa.Table, owners: Ints) -> pa.Array:
    """The reject of each question: its own, else the first reject of its branches."""
    rejects = batch["reject"].to_pylist()
    for row, reject in zip(owners.tolist(), found["reject"].to_pylist(), strict=True):
        rejects[row] = rejects[row] or reject
    return pa.array(rejects, REJECT)
