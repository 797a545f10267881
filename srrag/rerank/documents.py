"""The documents of hits: which windows are of one document, and the best score of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.best_places import best_places
from srrag.units import Units

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def document_names(units: Units, ids: pa.Array) -> pa.Array:
    """The document of each window: its PMID, or the id of its document where it has none.

    Passages of one article may be indexed as documents of their own; their PMID joins them.
    """
    listed = ids.to_pylist()
    pmids = units.document_keys(listed, "pmid").cast(pa.string())
    own = units.take(listed, ("doc_id",))["doc_id"].combine_chunks()
    known = pc.fill_null(pc.not_equal(pmids, ""), False)
    return pc.if_else(known, pmids, own)


def best_of_documents(scores: Floats, rows: Ints, units: Units, ids: pa.Array) -> Floats:
    """The best score of each hit's document among the question's hits, (hits,)."""
    codes = document_names(units, ids).dictionary_encode().indices
    best: Floats = scores[best_places(scores, rows, np.asarray(codes, np.int64))]
    return best
