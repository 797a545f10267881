"""Seed windows: stratified sampling by grade (SR-RAG, section 4.5), and condition within it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from srrag.benchmark.relations import SEEDS
from srrag.ids import content_id, question_id
from srrag.index.units import Units

STRATA = ("grade", "condition")


@dataclass(frozen=True, kw_only=True)
class SampleSeeds:
    """Draw `windows` windows, as many from each stratum as there are to have.

    Shares are equal on each level: what one grade lacks goes to the others, and so within a grade
    for its conditions. A document gives at most `per_document` windows, None for any number. A
    window's place in its stratum is the hash of its id with the seed, so that a larger sample
    holds a smaller one but for what the shares move.
    """

    windows: int = 2000
    strata: tuple[str, ...] = STRATA
    per_document: int | None = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError that names the field for a sample that cannot be drawn."""
        if self.windows < 1:
            raise ValueError(f"windows={self.windows}: at least 1")
        if self.per_document is not None and self.per_document < 1:
            raise ValueError(f"per_document={self.per_document}: at least 1, or null for any")
        unknown = [name for name in self.strata if name not in STRATA]
        if unknown or len(set(self.strata)) < len(self.strata):
            raise ValueError(f"strata={list(self.strata)}: each of {', '.join(STRATA)} once")

    def draw(self, units: Units) -> pa.Table:
        """The sampled windows as SEEDS, ordered by question id."""
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
        shares = allocate({name: len(units_) for name, units_ in strata.items()}, self.windows)
        chosen = [unit for name, share in shares.items() for unit in strata[name][:share]]
        return seeds(units, chosen).sort_by("query_id")


def allocate(sizes: Mapping[tuple[str, ...], int], total: int) -> dict[tuple[str, ...], int]:
    """How many to take of each stratum: equal shares level by level, never more than there are.

    A key has one name a level. What cannot be shared equally goes to the first in order.
    """
    if all(not key for key in sizes):
        return {key: min(total, size) for key, size in sizes.items()}
    groups: dict[str, dict[tuple[str, ...], int]] = {}
    for key, size in sorted(sizes.items()):
        groups.setdefault(key[0], {})[key[1:]] = size
    shares = level([sum(inner.values()) for inner in groups.values()], total)
    return {
        (name, *key): share
        for (name, inner), part in zip(groups.items(), shares, strict=True)
        for key, share in allocate(inner, part).items()
    }


def level(sizes: Sequence[int], total: int) -> list[int]:
    """Share a total out equally among groups of these sizes, filling the small ones up."""
    total = min(total, sum(sizes))
    heights = range(max(sizes, default=0) + 1)
    # The highest level to which all can be filled; what is left over lifts the first ones by one.
    full = bisect_right(heights, total, key=lambda h: sum(min(size, h) for size in sizes)) - 1
    shares = [min(size, full) for size in sizes]
    higher = [n for n, size in enumerate(sizes) if size > full]
    for n in higher[: total - sum(shares)]:
        shares[n] += 1
    return shares


def seeds(units: Units, unit_ids: Sequence[str]) -> pa.Table:
    """These windows as SEEDS; the id of a question is that of its seed window, hashed."""
    windows = units.take(unit_ids)
    documents = units.take_documents(windows["doc_id"].to_pylist())
    columns = {
        "query_id": pa.array(list(map(question_id, unit_ids)), pa.string()),
        "window": windows["text"],
        **{n: windows[n] for n in ("unit_id", "doc_id", "grade", "section")},
        **{n: windows[n] for n in ("char_start", "char_end")},
        **{n: documents[n] for n in ("source_id", "condition", "title", "year")},
        "reject": pa.nulls(len(unit_ids), SEEDS.field("reject").type),
    }
    return pa.table([columns[name] for name in SEEDS.names], schema=SEEDS)
