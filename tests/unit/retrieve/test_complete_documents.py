from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from srrag.core.schema import HITS, UNITS
from srrag.core.step import Place
from srrag.index.units import BuildUnits
from srrag.retrieve.complete_documents import CompleteDocuments
from tests.unit.index.tables import documents, row, uid, write

# Studies: windows 0, 1, 2 are of a paper; 3 and 4 of another, in two documents; 5 stands alone.
DOCUMENTS = {0: "a", 1: "a", 2: "a", 3: "b", 4: "c", 5: "d"}
PMIDS = {"a": "1", "b": "2", "c": "2", "d": ""}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    out = tmp_path_factory.mktemp("units")
    doc = {name: uid(100 + n) for n, name in enumerate(PMIDS)}
    rows = [row(UNITS, unit_id=uid(n), doc_id=doc[name]) for n, name in DOCUMENTS.items()]
    known = [{"doc_id": doc[k], "source_id": k, "pmid": pmid} for k, pmid in PMIDS.items()]
    inputs = {
        "windows": [write(rows, UNITS, out / "w.parquet")],
        "documents": [documents(known, out / "d.parquet")],
    }
    BuildUnits().build(inputs, out, Place())
    return Place(artifacts={"units": out})


def completed(at: Place, lists: list[list[int]], **fields: Any) -> list[list[dict[str, Any]]]:
    hits = [
        [{"unit_id": uid(n), "score": 9.0 - k, "rank": k + 1} for k, n in enumerate(row)]
        for row in lists
    ]
    table = pa.table({"hits_fused": pa.array(hits, HITS)})
    rows: list[list[dict[str, Any]]] = (
        CompleteDocuments(**fields).open(at)(table)["hits_whole"].to_pylist()
    )
    for each in rows:
        assert [hit["rank"] for hit in each] == list(range(1, len(each) + 1))
        assert sorted(-hit["score"] for hit in each) == [-hit["score"] for hit in each]
    return rows


def shown(rows: list[list[dict[str, Any]]]) -> list[list[str]]:
    return [[hit["unit_id"] for hit in row] for row in rows]


def test_the_other_windows_follow_by_the_rank_of_their_document(at: Place) -> None:
    rows = completed(at, [[4, 1, 5], [], [2]])
    assert shown(rows) == [
        [uid(n) for n in (4, 1, 5, 3, 0, 2)], [], [uid(n) for n in (2, 0, 1)]
    ]  # fmt: skip
    assert [hit["score"] for hit in rows[0]] == [9.0, 8.0, 7.0, 0.0, 0.0, 0.0]


def test_only_documents_of_the_best_hits_and_no_books(at: Place) -> None:
    assert shown(completed(at, [[4, 1, 5]], top=1)) == [[uid(n) for n in (4, 1, 5, 3)]]
    assert shown(completed(at, [[4, 1, 5]], most=2)) == [[uid(n) for n in (4, 1, 5, 3)]]
    assert shown(completed(at, [[]])) == [[]]
    assert completed(at, []) == []


@pytest.mark.parametrize("fields", [{"top": 0}, {"most": 0}])
def test_settings_that_cannot_work(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CompleteDocuments(**fields)
