from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.index.dense import SCORE_DECIMALS, BuildDenseIndex, DenseIndex, rank, unpack_vectors
from srrag.step import Place
from tests.unit.index.tables import hashed, uid, vectors


def unit_rows(rows: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def built(out: Path, paths: list[Path], **fields: int) -> tuple[DenseIndex, dict[str, object]]:
    out.mkdir()
    figures = BuildDenseIndex(**fields).build({"vectors": paths}, out, Place())
    return DenseIndex(out), figures


def names(found: list[tuple[pa.Array, np.ndarray]]) -> list[list[str]]:
    return [ids.to_pylist() for ids, _ in found]


def test_flat_is_the_exact_search(tmp_path: Path) -> None:
    matrix, queries = unit_rows(300), unit_rows(5, seed=1)
    ids = [hashed(n) for n in range(300)]
    paths = [
        vectors(ids[:120], matrix[:120], tmp_path / "a.parquet"),
        vectors(ids[120:], matrix[120:], tmp_path / "b.parquet"),
    ]
    index, figures = built(tmp_path / "flat", paths)
    assert figures == {"kind": "flat", "windows": 300, "shards": 1, "recall_at_100": 1.0}
    scores = queries @ matrix.T
    for row, (found, score) in enumerate(index.search(queries, 10)):
        order = np.argsort(-scores[row])[:10]
        assert found.to_pylist() == [ids[i] for i in order]
        np.testing.assert_allclose(score, scores[row][order], atol=1e-6)


@pytest.mark.parametrize("shard_rows", [1, 50, 150])
def test_several_shards_are_one(tmp_path: Path, shard_rows: int) -> None:
    matrix, queries = unit_rows(200), unit_rows(4, seed=2)
    ids = [hashed(n) for n in range(200)]
    paths = [
        vectors(ids[start : start + 40], matrix[start : start + 40], tmp_path / f"{start}.parquet")
        for start in range(0, 200, 40)
    ]
    one, _ = built(tmp_path / "one", paths)
    many, figures = built(tmp_path / "many", paths, shard_rows=shard_rows)
    assert figures["shards"] == {1: 5, 50: 3, 150: 2}[shard_rows]
    left, right = one.search(queries, 25), many.search(queries, 25)
    assert names(left) == names(right)
    for (_, a), (_, b) in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_inverted_lists_above_the_flat_size_report_their_recall(tmp_path: Path) -> None:
    """Twenty tight clouds of points: what is near lies in the lists that are probed."""
    centres = unit_rows(20, dimension=32, seed=3)
    noise = np.random.default_rng(4).normal(scale=0.02, size=(2000, 32))
    matrix = (centres[np.arange(2000) % 20] + noise).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    ids = [hashed(n) for n in range(2000)]
    path = vectors(ids, matrix, tmp_path / "p.parquet")
    index, figures = built(tmp_path / "ivf", [path], flat_rows=1999, probes=48)
    assert figures["kind"] == "ivf"
    assert json.loads((tmp_path / "ivf" / "index.json").read_text())["probes"] == 48
    assert float(str(figures["recall_at_100"])) > 0.9
    queries = matrix[::100]
    truth = np.argsort(-(queries @ matrix.T), axis=1)[:, :100]
    shared = [
        len({ids[i] for i in truth[row]} & set(found.to_pylist())) / 100
        for row, (found, _) in enumerate(index.search(queries, 100))
    ]
    assert float(np.mean(shared)) > 0.9
    again, repeated = built(tmp_path / "again", [path], flat_rows=1999, probes=48)
    assert repeated == figures
    assert names(again.search(queries, 50)) == names(index.search(queries, 50))


def test_fewer_probes_find_less(tmp_path: Path) -> None:
    path = vectors([hashed(n) for n in range(800)], unit_rows(800), tmp_path / "p.parquet")
    _, few = built(tmp_path / "few", [path], flat_rows=10, probes=2)
    _, all_ = built(tmp_path / "all", [path], flat_rows=10, probes=1000)
    assert float(str(few["recall_at_100"])) < 0.9
    assert all_["recall_at_100"] == 1.0


def test_equal_scores_go_by_id(tmp_path: Path) -> None:
    same = np.array([[1.0, 0.0]] * 4 + [[0.0, 1.0]], dtype=np.float32)
    ids = [uid(n) for n in (7, 3, 9, 1, 5)]
    index, _ = built(tmp_path / "i", [vectors(ids, same, tmp_path / "p.parquet")])
    ((found, scores),) = index.search(np.array([[1.0, 0.0]], np.float32), 10)
    assert found.to_pylist() == [uid(n) for n in (1, 3, 7, 9, 5)]
    assert scores.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]


def test_equal_scores_go_by_id_where_the_list_is_cut(tmp_path: Path) -> None:
    same = np.array([[1.0, 0.0]] * 4, dtype=np.float32)
    path = vectors([uid(n) for n in (7, 3, 9, 1)], same, tmp_path / "p.parquet")
    index, _ = built(tmp_path / "i", [path])
    ((found, _),) = index.search(np.array([[1.0, 0.0]], np.float32), 2)
    assert found.to_pylist() == [uid(1), uid(3)]


def test_what_was_rejected_is_not_found(tmp_path: Path) -> None:
    ids = [uid(n) for n in range(3)]
    path = vectors(ids, np.eye(3), tmp_path / "p.parquet", refused=[uid(1)])
    index, figures = built(tmp_path / "i", [path])
    assert figures["windows"] == 2
    ((found, _),) = index.search(np.array([[0.0, 1.0, 0.0]], np.float32), 3)
    assert found.to_pylist() == [uid(0), uid(2)]


def test_nothing_to_index(tmp_path: Path) -> None:
    path = vectors([uid(1)], np.eye(1), tmp_path / "p.parquet", refused=[uid(1)])
    for paths in ([], [path]):
        with pytest.raises(ValueError, match="no window to index"):
            BuildDenseIndex().build({"vectors": paths}, tmp_path, Place())


def test_no_question(tmp_path: Path) -> None:
    index, _ = built(tmp_path / "i", [vectors([uid(1)], np.eye(1), tmp_path / "p.parquet")])
    assert index.search(np.zeros((0, 1), np.float32), 3) == []


def test_vectors_unpack() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    column = pa.chunked_array([[rows[0].tobytes()], [rows[1].tobytes()]], pa.binary())
    assert unpack_vectors(column).tolist() == rows.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 4)), unique_by=lambda x: x[0]))
def test_rank_does_not_depend_on_the_order_it_is_given(rows: list[tuple[int, int]]) -> None:
    """Scores that differ by less than the rounding count as equal."""

    def ranked(pairs: list[tuple[int, int]]) -> list[str]:
        ids = pa.array([uid(n) for n, _ in pairs], pa.string())
        jitter = np.array([(n % 3) * 10.0 ** -(SCORE_DECIMALS + 2) for n, _ in pairs])
        scores = (np.array([s for _, s in pairs]) / 8 + jitter).astype(np.float32)
        return rank(ids, scores, 10)[0].to_pylist()

    expected = [uid(n) for n, _ in sorted(rows, key=lambda x: (-x[1], x[0]))][:10]
    assert ranked(rows) == ranked(rows[::-1]) == expected
