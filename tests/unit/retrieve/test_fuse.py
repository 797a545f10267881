from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.core.hits import FoundWindows, codes
from srrag.core.schema import HITS
from srrag.core.step import Place
from srrag.retrieve.fuse import FuseRanks

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
    for row, lists in zip(left, rows, strict=True):
        shares = {
            name: sum(1 / (61 + ids.index(name)) for ids in lists if name in ids)
            for name in set().union(*lists)
        }
        expected = sorted(shares, key=lambda name: (-round(shares[name], 12), name))
        assert [name for name, _, _ in row] == expected
        assert [rank for _, _, rank in row] == list(range(1, len(row) + 1))
