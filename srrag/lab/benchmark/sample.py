"""Seed windows by grade and condition, pools of candidates, and the relations of the steps.

SR-RAG, section 4.5. A row is a seed window, later with its question.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.rows import Row, rejected
from srrag.core.schema import NUGGETS, PICOT, relation
from srrag.core.spec import content_id, question_id
from srrag.core.standing import COPY, HIDDEN, Standings
from srrag.core.units import Units
from srrag.llm.completion import Fault

_STRING = pa.string()
_INT = pa.int32()
_WINDOW = (
    ("unit_id", _STRING),
    ("doc_id", _STRING),
    ("source_id", _STRING),
    ("grade", _STRING),
    ("title", _STRING),
    ("year", _INT),
)
_SPAN = (("char_start", _INT), ("char_end", _INT))


def extended(schema: pa.Schema, *fields: tuple[str, pa.DataType]) -> tuple[pa.Schema, pa.Schema]:
    """Return the schema with more columns, and a schema of the new ones; both end in `reject`."""
    added = relation(*fields)
    kept = [item for item in schema if item.name != "reject"]
    return pa.schema([*kept, *added]), added


def listed(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    """Return the type of a list of structs with these fields."""
    return pa.list_(pa.struct([pa.field(name, kind) for name, kind in fields]))


SEEDS = relation(
    "query_id", *_WINDOW, "condition section", *_SPAN, "window", ("asked", pa.list_(_STRING))
)
"""Sampled windows; the span counts characters of the cleaned document.

`asked` are the questions that were written before of other windows of the document.
"""

QUESTIONED, QUESTION = extended(
    SEEDS,
    ("text", _STRING),
    ("conclusion", _STRING),
    ("picot", PICOT),
    ("certainty", _STRING),
    ("certainty_reason", _STRING),
)
"""With the question, and the verbatim stretch of the window that answers it."""

POOL = listed(*_WINDOW, ("section", _STRING), *_SPAN, ("text", _STRING))
POOLED, _ = extended(QUESTIONED, ("track", _STRING), ("seed_rank", _INT), ("pool", POOL))
"""With the candidates, best first. `seed_rank` counts from 1 in the baseline; 0: not found."""

GOLD = listed(
    *_WINDOW,
    ("support", _STRING),
    ("reason", _STRING),
    *_SPAN,
    ("quote", _STRING),
    ("text", _STRING),
)
SUPPORTED, SUPPORT = extended(
    QUESTIONED,
    ("track", _STRING),
    ("seed_rank", _INT),
    ("gold", GOLD),
    ("weak", _INT),
    ("unrelated", _INT),
    ("not_graded", _INT),
    ("whole_windows", _INT),
)
"""With the gold windows, by grade: span and quote are what supports, `text` is the window.

`weak` and `unrelated` count the candidates graded so, `not_graded` those whose grade was lost,
`whole_windows` the gold for which no verbatim quote was given: there it is the window.
"""

STATEMENTS = listed(("text", _STRING), ("unit_ids", pa.list_(_STRING)))
REFERENCED, REFERENCE = extended(
    SUPPORTED,
    ("exact", STATEMENTS),
    ("ideal", STATEMENTS),
    ("dropped_statements", _INT),
)
"""With the statements of both answers, each with the gold windows that it rests on."""

NUGGETED, NUGGET_COLUMN = extended(REFERENCED, ("nuggets", NUGGETS))
"""With the nuggets of the exact answer."""


UNFIT = HIDDEN | {
    COPY, "superseded", "retraction_notice", "concern_notice", "correction_notice",
}  # fmt: skip
"""Standings of papers on which no question, reference or gold rests."""


def unfit_papers(standings: Standings) -> dict[str, str]:
    """Map the papers on which nothing may rest to their standing; empty if it is not known."""
    if not standings.known:
        return {}
    told = standings.table.select(["doc_id", "standing"])
    rows = told.filter(pc.is_in(told["standing"], pa.array(sorted(UNFIT)))).to_pydict()
    return dict(zip(rows["doc_id"], rows["standing"], strict=True))


MAIN, CHALLENGE = "main", "challenge"
_UNIT = ("unit_id", "doc_id", "grade", "section", "char_start", "char_end", "text")
_DOCUMENT = ("source_id", "title", "year")


def pooled(
    questions: pa.Table,
    units: Units,
    accessible: pa.Table,
    rankings: Sequence[pa.Table],
    at: int,
    depth: int,
    unfit: Collection[str] = (),
) -> pa.Table:
    """Add track and candidates to QUESTIONED; returns POOLED.

    A question is `main` if the baseline (`accessible`) ranks its seed window among the first `at`,
    else `challenge`. The pool has `depth` windows: the seed, then those of all rankings and the
    baseline, interleaved by rank, without windows of the documents in `unfit`. A question that a
    pipeline rejected is rejected. Rankings are tables with columns `hits` and `reject`, one row for
    each row of `questions`, in order.
    """
    columns = [_listed(table) for table in (*rankings, accessible)]
    every = sorted({n for column in columns for each in column if type(each) is list for n in each})
    papers = units.take(every, ("doc_id",))["doc_id"].to_pylist() if unfit and every else []
    barred = {name for name, paper in zip(every, papers, strict=False) if paper in unfit}
    rows = []
    for number, question in enumerate(questions.to_pylist()):
        ranked = [column[number] for column in columns]
        lost = next((each for each in ranked if isinstance(each, Fault)), None)
        if lost is not None:
            blank: Row = {"track": "", "seed_rank": 0, "pool": []}
            rows.append({**question, **blank, **rejected("retrieval", lost)})
            continue
        seed, baseline = question["unit_id"], ranked[-1]
        rank = baseline.index(seed) + 1 if seed in baseline else 0
        fit = [[name for name in each if name not in barred] for each in ranked]
        pool = in_turn([[seed], *fit], depth)
        track = MAIN if 0 < rank <= at else CHALLENGE
        rows.append({**question, "track": track, "seed_rank": rank, "pool": pool})
    found = _candidates(units, sorted({name for row in rows for name in row["pool"]}))
    for row in rows:
        row["pool"] = [found[name] for name in row["pool"]]
    return pa.Table.from_pylist(rows, schema=POOLED)


def windows_of(units: Units, doc_ids: Collection[str]) -> pa.Table:
    """Return `unit_id` and `doc_id` of the windows of these documents."""
    table = units.units.select(["unit_id", "doc_id"])
    return table.filter(pc.is_in(table["doc_id"], pa.array(sorted(doc_ids), pa.string())))


def in_turn(rankings: Sequence[Sequence[str]], depth: int | None = None) -> list[str]:
    """Interleave rankings: the first of each, then the second of each, …, without duplicates."""
    turns = (name for turn in zip_longest(*rankings) for name in turn if name is not None)
    return list(dict.fromkeys(turns))[:depth]


def _listed(table: pa.Table) -> list[Any]:
    """Return the ranked windows of each question, or the reject of a failed one."""
    rows = table.select(["hits", "reject"]).to_pylist()
    return [
        Fault(row["reject"]["reason"], row["reject"]["detail"])
        if row["reject"]
        else [hit["unit_id"] for hit in row["hits"]]
        for row in rows
    ]


def _candidates(units: Units, unit_ids: Sequence[str]) -> dict[str, Row]:
    windows = units.take(unit_ids, _UNIT)
    documents = units.take_documents(windows["doc_id"].to_pylist()).select(list(_DOCUMENT))
    table = pa.table({**_columns(windows), **_columns(documents)})
    rows = table.select([item.name for item in POOL.value_type]).to_pylist()
    return {row["unit_id"]: row for row in rows}


def _columns(table: pa.Table) -> dict[str, Any]:
    return {name: table[name] for name in table.column_names}


STRATA = ("grade", "condition")
_AT_ONCE = 65_536


@dataclass(frozen=True, kw_only=True)
class SampleSeeds:
    """Draws `windows` windows in equal shares from the strata, as far as each has enough.

    Grades share equally, and so do the conditions within a grade; the others take over what one
    lacks. A document gives at most `per_document` windows (None: no limit). The hash of id and seed
    orders the windows of a stratum, so a larger sample contains a smaller one.
    """

    windows: int = 2000
    strata: tuple[str, ...] = STRATA
    per_document: int | None = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError that names the invalid field."""
        if self.windows < 1:
            raise ValueError(f"windows={self.windows}: at least 1")
        if self.per_document is not None and self.per_document < 1:
            raise ValueError(f"per_document={self.per_document}: at least 1, or null for any")
        unknown = [name for name in self.strata if name not in STRATA]
        if unknown or len(set(self.strata)) < len(self.strata):
            raise ValueError(f"strata={list(self.strata)}: each of {', '.join(STRATA)} once")

    def draw(self, units: Units, unfit: Collection[str] = ()) -> pa.Table:
        """Draw windows, none of the documents in `unfit`; return SEEDS, ordered by question id."""
        table, documents = units.units, units.documents
        papers = np.asarray(pc.index_in(table["doc_id"], documents["doc_id"]))
        order = np.argsort(self._hashes(table["unit_id"]), kind="stable")
        barred = pc.is_in(documents["doc_id"], pa.array(sorted(unfit), pa.string()))
        order = order[~np.asarray(barred)[papers[order]]]
        if self.per_document is not None:
            order = order[_nth(papers[order]) < self.per_document]
        columns = {"grade": table["grade"], "condition": documents["condition"]}
        rows = {"grade": order, "condition": papers[order]}
        strata: dict[tuple[str, ...], npt.NDArray[Any]] = {(): order}
        for name in self.strata:
            values = pc.unique(columns[name])
            codes = np.zeros(len(table), np.int32)
            codes[order] = np.asarray(pc.index_in(columns[name], values))[rows[name]]
            strata = {
                (*key, value): chosen
                for key, held in strata.items()
                for code, value in enumerate(values.to_pylist())
                if len(chosen := held[codes[held] == code])
            }
        named = {key: units.ids(held[: self.windows]).to_pylist() for key, held in strata.items()}
        return seeds(units, by_turns(named)[: self.windows]).sort_by("query_id")

    def _hashes(self, unit_ids: pa.ChunkedArray) -> npt.NDArray[np.bytes_]:
        """Hash each id with the seed, some at a time."""
        parts = (unit_ids.slice(n, _AT_ONCE) for n in range(0, len(unit_ids), _AT_ONCE))
        hashed = (content_id(str(self.seed), name) for part in parts for name in part.to_pylist())
        return np.fromiter(hashed, "S32", len(unit_ids))


def _nth(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How many equal values stand before each one."""
    order = np.argsort(values, kind="stable")
    first = np.searchsorted(values[order], values[order])
    found = np.empty(len(values), np.int64)
    found[order] = np.arange(len(values)) - first
    return found


def by_turns(strata: Mapping[tuple[str, ...], Sequence[str]]) -> list[str]:
    """Take one of each stratum in turn, level by level; a small one is used up early.

    A key has one name a level. So any first part has equal shares of the strata, as far as each
    has enough.
    """
    if all(not key for key in strata):
        return [name for names in strata.values() for name in names]
    groups: dict[str, dict[tuple[str, ...], Sequence[str]]] = {}
    for key, names in sorted(strata.items()):
        groups.setdefault(key[0], {})[key[1:]] = names
    return in_turn([by_turns(inner) for inner in groups.values()])


def seeds(units: Units, unit_ids: Sequence[str]) -> pa.Table:
    """Return these windows as SEEDS; a question's id is the hash of its seed window's id."""
    windows = units.take(unit_ids)
    documents = units.take_documents(windows["doc_id"].to_pylist())
    columns = {
        "query_id": pa.array(list(map(question_id, unit_ids)), pa.string()),
        "window": windows["text"],
        "asked": pa.array([[]] * len(unit_ids), SEEDS.field("asked").type),
        **{n: windows[n] for n in ("unit_id", "doc_id", "grade", "section")},
        **{n: windows[n] for n in ("char_start", "char_end")},
        **{n: documents[n] for n in ("source_id", "condition", "title", "year")},
        "reject": pa.nulls(len(unit_ids), SEEDS.field("reject").type),
    }
    return pa.table([columns[name] for name in SEEDS.names], schema=SEEDS)
