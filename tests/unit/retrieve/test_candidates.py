from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.core.hits import FoundWindows, codes
from srrag.core.schema import HITS, UNITS
from srrag.core.step import Place
from srrag.index.units import BuildUnits
from srrag.retrieve.candidates import CompleteDocuments, FuseRanks
from tests.unit.index.tables import documents, row, uid, write

Lists = list[list[str]]


def table(**channels: Lists) -> pa.Table:
    """Ranked ids by channel and question; the scores do not matter."""
    return pa.table(
        {
            name: FoundWindows.of(
                [(pa.array(ids, pa.string()), np.ones(len(ids))) for ids in rows]
            ).hits()
            for name, rows in channels.items()
        }
    )


def fused(batch: pa.Table, **fields: float) -> list[list[tuple[str, float, int]]]:
    step = FuseRanks(channels=tuple(batch.column_names), **fields)  # type: ignore[arg-type]
    out = step.open(Place())(batch)
    assert out.schema.field("hits").type.equals(HITS)
    rows = out["hits"].to_pylist()
    return [[(hit["unit_id"], hit["score"], hit["rank"]) for hit in row] for row in rows]


def test_by_hand() -> None:
    """y: 1/62 + 1/61; x: 1/61; z: 1/62."""
    ((first, second, third),) = fused(table(a=[["x", "y"]], b=[["y", "z"]]))
    assert first == ("y", pytest.approx(1 / 62 + 1 / 61, abs=1e-7), 1)
    assert second == ("x", pytest.approx(1 / 61, abs=1e-7), 2)
    assert third == ("z", pytest.approx(1 / 62, abs=1e-7), 3)


def test_a_smaller_k_weighs_the_top_more() -> None:
    """x: 1/1 = 1 against y: 1/3 + 1/3 with k = 0; with k = 60 y wins."""
    batch = table(a=[["x", "p", "y"]], b=[["q", "r", "y"]])
    assert fused(batch, k=0)[0][0][0] == "q"
    assert fused(batch)[0][0][0] == "y"


def test_ties_go_by_id() -> None:
    (row,) = fused(table(a=[["z", "b"]], b=[["a", "c"]]))
    assert [name for name, _, _ in row] == ["a", "z", "b", "c"]


def test_depth_bounds_the_list() -> None:
    batch = table(a=[["x", "y", "z"], ["p"]], b=[["y"], []])
    assert [[name for name, _, _ in row] for row in fused(batch, depth=2)] == [["y", "x"], ["p"]]
    assert [len(row) for row in fused(batch)] == [3, 1]


def test_empty_channels() -> None:
    rows = fused(table(a=[[], ["x"], []], b=[[], [], ["y"]]))
    assert [[name for name, _, _ in row] for row in rows] == [[], ["x"], ["y"]]
    assert fused(table(a=[[], []], b=[[], []])) == [[], []]
    assert fused(table(a=[], b=[])) == []


def test_reads_and_writes_what_it_says() -> None:
    step = FuseRanks(channels=("one", "two"), into="both")
    assert step.reads == ("one", "two")
    assert step.writes.names == ["both"]


def test_codes_follow_the_order_of_the_ids() -> None:
    names, (left, right) = codes([pa.array(["c", "a"]), pa.array(["b", "c", "b"])])
    assert names.to_pylist() == ["a", "b", "c"]
    assert left.tolist() == [2, 0]
    assert right.tolist() == [1, 2, 1]


RANKING = st.lists(st.sampled_from("abcdef"), unique=True)


@given(st.lists(st.tuples(RANKING, RANKING, RANKING), max_size=4))
def test_the_order_of_the_channels_does_not_matter(rows: list[tuple[list[str], ...]]) -> None:
    one, two, three = ([row[n] for row in rows] for n in range(3))
    left = fused(table(a=one, b=two, c=three))
    assert left == fused(table(a=three, b=one, c=two))
    for found, lists in zip(left, rows, strict=True):
        shares = {
            name: sum(1 / (61 + ids.index(name)) for ids in lists if name in ids)
            for name in set().union(*lists)
        }
        expected = sorted(shares, key=lambda name: (-round(shares[name], 12), name))
        assert [name for name, _, _ in found] == expected
        assert [rank for _, _, rank in found] == list(range(1, len(found) + 1))


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
