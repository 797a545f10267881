from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.units import Units
from srrag.rerank.maxsim import RerankMaxSim
from srrag.rerank.reranker import rank_tracks, study_numbers
from srrag.storage.store import Store


def test_each_track_keeps_its_own_best() -> None:
    """Two questions; of the first, track 0 holds a, c and e, track 1 holds b and d; f has none."""
    ids = pa.array(["a", "b", "c", "d", "e", "f", "g"])
    scores = np.array([1.0, 9.0, 3.0, 8.0, 2.0, 99.0, 5.0])
    tracks = np.array([0, 1, 0, 1, 0, -1, 1])
    ranked = rank_tracks(ids, scores, np.array([0, 6, 7]), tracks, 1).to_pylist()
    assert [[hit["unit_id"] for hit in row] for row in ranked] == [["b", "c"], ["g"]]
    assert [hit["rank"] for hit in ranked[0]] == [1, 2]
    whole = rank_tracks(ids, scores, np.array([0, 6, 7]), tracks, 0).to_pylist()
    assert [hit["unit_id"] for hit in whole[0]] == ["b", "d", "c", "e", "a"]


def test_tracks_are_a_partition_of_grades() -> None:
    assert RerankMaxSim(tracks=[["A"], ["B", "C"]]).needs() == ("tokens", "units")  # type: ignore[arg-type]
    for wrong, message in (
        ((("A",), ("A", "B")), "no grade stands in two"),
        ((("F",),), "grade 'F'"),
        (((),), "each is a list of grades"),
    ):
        with pytest.raises(ValueError, match=message):
            RerankMaxSim(tracks=wrong)


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
