"""The dense index on a GPU finds what it finds on the CPU, within its recall."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from srrag.core.step import Place
from srrag.index.opened import MAX_DEPTH, DenseIndex
from tests.unit.index.test_dense_shards import clouds, made, parts_of

pytestmark = pytest.mark.skipif(
    not faiss.get_num_gpus(), reason="needs a GPU and a FAISS that is built for it (faiss-gpu)"
)

ROWS, DEPTH = 4000, 50


def shared(index: DenseIndex, other: DenseIndex, queries: np.ndarray) -> float:
    """The mean share of the best DEPTH of one index that the other has too."""
    pairs = zip(index.search(queries, DEPTH), other.search(queries, DEPTH), strict=True)
    return float(
        np.mean([len({*a.to_pylist()} & {*b.to_pylist()}) / DEPTH for (a, _), (b, _) in pairs])
    )


def test_an_exact_search_finds_the_same(tmp_path: Path) -> None:
    made(tmp_path / "i", parts_of(tmp_path / "p", clouds(ROWS), [1000] * 4), shard_rows=1000)
    queries = clouds(40, seed=1)
    here, there = DenseIndex(tmp_path / "i"), DenseIndex(tmp_path / "i", device="cuda")
    assert there.gpus > 0
    pairs = zip(here.search(queries, DEPTH), there.search(queries, DEPTH), strict=True)
    for (_, cpu), (_, gpu) in pairs:
        np.testing.assert_allclose(cpu, gpu, atol=1e-4)
    assert shared(here, there, queries) > 0.99


@pytest.mark.parametrize(("pq_bytes", "rescored"), [(None, 0), (8, 0), (8, 10), (32, 0)], ids=str)
def test_lists_that_a_gpu_makes_are_as_good(
    tmp_path: Path, pq_bytes: int | None, rescored: int
) -> None:
    """Made on either, and searched on either, the index has the recall that was reported."""
    matrix, queries = clouds(ROWS), clouds(100, seed=1)
    inputs = parts_of(tmp_path / "p", matrix, [1000] * 4)
    made(tmp_path / "exact", inputs)
    fields = {"flat_rows": 300, "shard_rows": 2000, "pq_bytes": pq_bytes, "rescored": rescored}
    figures = {
        device: made(tmp_path / device, inputs, Place(device=device), **fields)
        for device in ("cpu", "cuda")
    }
    assert [figures[device]["made_on"] for device in ("cpu", "cuda")] == ["cpu", "cuda"]
    reported = figures["cpu"]["recall_at_100"]
    assert figures["cuda"]["recall_at_100"] == pytest.approx(reported, abs=0.05)
    exact = DenseIndex(tmp_path / "exact")
    recalls = [
        shared(DenseIndex(tmp_path / maker, device=searcher), exact, queries)
        for maker in ("cpu", "cuda")
        for searcher in ("cpu", "cuda")
    ]
    assert max(recalls) - min(recalls) < 0.05


def test_codes_too_long_for_float32_tables_are_searched(tmp_path: Path) -> None:
    """Of 64 bytes and more FAISS keeps its tables as float16."""
    inputs = parts_of(tmp_path / "p", clouds(ROWS, dimension=128), [ROWS])
    place = Place(device="cuda")
    figures = made(tmp_path / "i", inputs, place, flat_rows=300, pq_bytes=64)
    assert figures["recall_at_100"] > 0.9


def test_more_equal_vectors_than_a_gpu_selects_end_the_search(tmp_path: Path) -> None:
    same = np.tile(np.eye(4, dtype=np.float32)[:1], (MAX_DEPTH + 500, 1))
    made(tmp_path / "i", parts_of(tmp_path / "p", same, [len(same)]))
    ((ids, scores),) = DenseIndex(tmp_path / "i", device="cuda").search(same[:1], 5)
    assert len({*ids.to_pylist()}) == 5
    assert scores.tolist() == [1.0] * 5
