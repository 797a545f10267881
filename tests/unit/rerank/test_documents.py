from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from srrag.core.units import Units
from srrag.rerank.documents import study_numbers
from srrag.storage.store import Store


def test_a_pmid_joins_documents(sample_root: Path) -> None:
    """The sample's documents have PMIDs of their own, or none: then the document's id counts."""
    units = Units(Store(sample_root).artifacts("default")["units"])
    ids = units.units["unit_id"].combine_chunks()
    numbers = study_numbers(units, ids).tolist()
    documents = units.units["doc_id"].to_pylist()
    pmid = dict(zip(*(units.documents[n].to_pylist() for n in ("doc_id", "pmid")), strict=True))
    names = [pmid[each] or each for each in documents]
    assert len(set(zip(names, numbers, strict=True))) == len(set(names)) == len(set(numbers))
    assert len(study_numbers(units, pa.array([], pa.string()))) == 0
