from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.step import Place
from srrag.retrieve.fuse_scores import FuseScores


def hits(*rows: dict[str, float]) -> pa.Array:
    found = [(pa.array(list(row), pa.string()), np.array(list(row.values()))) for row in rows]
    return FoundWindows.of(found).hits()


def fused(step: FuseScores, **columns: pa.Array) -> list[list[tuple[str, float]]]:
    out = step.open(Place())(pa.table(columns))["hits"].to_pylist()
    return [[(hit["unit_id"], round(hit["score"], 5)) for hit in row] for row in out]


def test_the_mean_by_hand() -> None:
    """BM25 9, 5, 1 becomes 1, 1/2, 0; cosines .8, .4 become 1, 0. The second row has no BM25."""
    sparse = hits({"a": 9.0, "b": 5.0, "c": 1.0}, {})
    dense = hits({"d": 0.8, "a": 0.4}, {"b": 0.3})
    equal = fused(FuseScores(), hits_sparse=sparse, hits_dense=dense)
    assert equal == [[("a", 0.5), ("d", 0.5), ("b", 0.25), ("c", 0.0)], [("b", 0.5)]]
    step = FuseScores(weights={"hits_sparse": 1, "hits_dense": 3})
    (first, _) = fused(step, hits_sparse=sparse, hits_dense=dense)
    assert first == [("d", 0.75), ("a", 0.25), ("b", 0.125), ("c", 0.0)]


def test_weights_that_join_nothing() -> None:
    with pytest.raises(ValueError, match="at least one channel"):
        FuseScores(weights={})
    with pytest.raises(ValueError, match=r"weights.hits_dense is 0"):
        FuseScores(weights={"hits_dense": 0})
