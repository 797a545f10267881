from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from srrag.rerank.documents import best_places, document_names
from srrag.storage.store import Store
from srrag.units import Units


def test_the_best_of_each_document_by_hand() -> None:
    """Two questions; documents 7 and 8 stand in both."""
    scores = np.array([0.1, 0.9, 0.5, 0.9, 0.2, 0.3])
    rows = np.array([0, 0, 0, 0, 1, 1])
    documents = np.array([7, 8, 7, 8, 7, 8])
    assert best_places(scores, rows, documents).tolist() == [2, 1, 2, 1, 4, 5]


def test_nothing_has_no_best() -> None:
    none = np.zeros(0, np.int64)
    assert best_places(np.zeros(0), none, none).tolist() == []


def test_a_pmid_joins_documents(sample_root: Path) -> None:
    """The sample's documents have PMIDs of their own, or none: then the document's id counts."""
    units = Units(Store(sample_root).artifacts("default")["units"])
    ids = units.units["unit_id"].combine_chunks()
    names = document_names(units, ids).to_pylist()
    documents = units.units["doc_id"].to_pylist()
    pmid = dict(zip(*(units.documents[n].to_pylist() for n in ("doc_id", "pmid")), strict=True))
    assert names == [pmid[each] or each for each in documents]
    assert len(document_names(units, pa.array([], pa.string()))) == 0
