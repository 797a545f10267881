"""Seed windows: stratified sampling by grade (SR-RAG, section 4.5), and condition within it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from srrag.core.spec import content_id, question_id
from srrag.core.units import Units
from srrag.lab.benchmark.pool import in_turn
from srrag.lab.benchmark.relations import SEEDS

STRATA = ("grade", "condition")


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

    def draw(self, units: Units) -> pa.Table:
        """Draw the windows; return SEEDS, ordered by question id."""
        documents = units.documents.select(["doc_id", "condition"]).to_pydict()
        conditions = dict(zip(documents["doc_id"], documents["condition"], strict=True))
        columns = units.units.select(["unit_id", "doc_id", "grade"]).to_pydict()
        ids = sorted(
            zip(*columns.values(), strict=True),
            key=lambda row: content_id(str(self.seed), row[0]),
        )
        taken: Counter[str] = Counter()
        strata: dict[tuple[str, ...], list[str]] = {}
        for unit_id, doc_id, grade in ids:
            taken[doc_id] += 1
            if self.per_document is None or taken[doc_id] <= self.per_document:
                named = {"grade": grade, "condition": conditions[doc_id]}
                strata.setdefault(tuple(named[name] for name in self.strata), []).append(unit_id)
        return seeds(units, by_turns(strata)[: self.windows]).sort_by("query_id")


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
