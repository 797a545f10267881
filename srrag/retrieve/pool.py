"""Pool lists of windows by window, document or PubMed article."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from srrag.algo.pool import Pooled, Reduce, pool
from srrag.core.hits import Ints, codes, pack_flat, ranks, unpack_hits
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units

PoolKey = Literal["unit", "document", "pmid"]
KEYS = get_args(PoolKey)


@dataclass(frozen=True, kw_only=True)
class PoolHits(Step):
    """Join the lists in the columns `hits`, each key once, as its best window.

    `key` is the window (`unit`), the corpus's own document, or the PubMed article (`pmid`; a
    document without a PMID counts by its own id). `reduce` says how to join the scores of a key
    (see `srrag.algo.pool`). The best `keep` of a question go on; 0 keeps all.
    """

    hits: tuple[str, ...]
    key: PoolKey = "pmid"
    reduce: Reduce = "max"
    keep: int = 0
    into: str = "hits"
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError for no list, an unknown key or way, or a negative `keep`."""
        if not self.hits:
            raise ValueError("hits: at least one column of hits is needed")
        check_pool(self.key, self.reduce, self.keep)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The lists."""
        return self.hits

    @property
    def writes(self) -> pa.Schema:
        """The pooled hits."""
        return pa.schema([pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The units index, which knows the documents of windows."""
        return () if self.key == "unit" else (self.units,)

    def open(self, at: Place) -> Function:
        """Map the documents, unless the key is the window."""
        units = None if self.key == "unit" else open_units(at, self.units)

        def run(batch: pa.Table) -> pa.Table:
            lists = [batch[name] for name in self.hits]
            rows = [np.arange(batch.num_rows)] * len(lists)
            pooled = pool_lists(lists, rows, batch.num_rows, units, self)
            return batch.append_column(self.writes.field(0), pooled)

        return run


def check_pool(key: str, reduce: str, keep: int) -> None:
    """Raise ValueError for an unknown key or way, or a negative `keep`."""
    if key not in KEYS:
        raise ValueError(f"key is {key!r}: it can be {', '.join(KEYS)}")
    if reduce not in get_args(Reduce):
        raise ValueError(f"reduce is {reduce!r}: it can be {', '.join(get_args(Reduce))}")
    if keep < 0:
        raise ValueError(f"keep is {keep}: a number of windows, or 0 for all")


def pool_lists(
    lists: Sequence[pa.ChunkedArray],
    rows: Sequence[Ints],
    num_rows: int,
    units: Units | None,
    how: PoolHits,
) -> pa.Array:
    """Pool HITS columns, whose lists belong to these rows, into a HITS column of `num_rows`."""
    columns = [unpack_hits(column) for column in lists]
    sizes = [np.diff(offsets) for _, _, offsets in columns]
    ids = pa.concat_arrays([pa.array([], pa.string()), *(found for found, _, _ in columns)])
    score = np.concatenate([np.zeros(0), *(scores for _, scores, _ in columns)])
    owner = np.concatenate([np.repeat(r, n) for r, n in zip(rows, sizes, strict=True)])
    source = np.repeat(np.arange(len(sizes)), [int(size.sum()) for size in sizes])
    rank = np.concatenate([ranks(size) for size in sizes])
    names = ids
    if units is not None:
        named = units.document_keys if how.key == "document" else units.article_keys
        names = named(ids.to_pylist())
    _, (key,) = codes([names])
    pooled = pool(owner, source, key, rank, score, reduce=how.reduce)
    return _packed(pooled, ids, num_rows, how.keep)


def _packed(pooled: Pooled, ids: pa.Array, num_rows: int, keep: int) -> pa.Array:
    kept = pooled.rank <= keep if keep else np.ones(len(pooled.rank), np.bool_)
    query = pooled.query[kept]
    offsets = np.searchsorted(query, np.arange(num_rows + 1))
    found = ids.take(pa.array(pooled.find[kept]))
    return pack_flat(found, pooled.score[kept], pooled.rank[kept], offsets)
