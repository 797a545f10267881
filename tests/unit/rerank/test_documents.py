from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from srrag.rerank.documents import document_names
from srrag.storage.store import Store
from srrag.units import Units


def test_a_pmid_joins_documents(sample_root: Path) -> None:
    """The sample's documents have PMIDs of their own, or none: then the document's id counts."""
    units = Units(Store(sample_root).artifacts("default")["units"])
    ids = units.units["unit_id"].combine_chunks()
    names = document_names(units, ids).to_pylist()
    documents = units.units["doc_id"].to_pylist()
    pmid = dict(zip(*(units.documents[n].to_pylist() for n in ("doc_id", "pmid")), strict=True))
    assert names == [pmid[each] or each for each in documents]
    assert len(document_names(units, pa.array([], pa.string()))) == 0
