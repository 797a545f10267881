from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.hits import SCORE_DECIMALS, pool, rank
from srrag.core.schema import UNITS
from srrag.core.standing import GRADES, UNGRADED
from srrag.core.step import Place
from srrag.index.dense import BuildDenseIndex
from srrag.index.opened import DenseIndex
from srrag.index.parts import unpack_vectors
from tests.unit.index.tables import hashed, row, uid, vectors, write


def unit_rows(rows: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def built(
    out: Path, paths: list[Path], grade: Mapping[str, str] | None = None, **fields: int
) -> tuple[DenseIndex, dict[str, object]]:
    """The index of these parts of vectors; windows have the grade that is given, or none."""
    out.mkdir()
    parts = []
    for path in paths:
        ids = pq.read_table(path, columns=["unit_id"])["unit_id"].to_pylist()
        rows = [row(UNITS, unit_id=key, grade=(grade or {}).get(key, "")) for key in ids[::-1]]
        (out.parent / f"windows of {out.name}").mkdir(exist_ok=True)
        parts.append(write(rows, UNITS, out.parent / f"windows of {out.name}" / path.name))
    inputs = {"vectors": paths, "windows": parts}
    figures = BuildDenseIndex(**fields).build(inputs, out, Place())
    return DenseIndex(out), figures


def nearest(ids: list[str], scores: np.ndarray, k: int) -> list[str]:
    """Brute force: by score as rankings round it, then by id."""
    order = sorted(
        range(len(ids)), key=lambda n: (-round(float(scores[n]), SCORE_DECIMALS), ids[n])
    )
    return [ids[n] for n in order[:k]]


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
    assert figures == {
        "windows": 300, "exact": 300, "shards": 1, "recall_at_100": 1.0,
        "bytes_per_vector": 64.2, "made_on": "cpu",
    }  # fmt: skip
    scores = queries @ matrix.T
    for place, (found, score) in enumerate(index.search(queries, 10)):
        order = np.argsort(-scores[place])[:10]
        assert found.to_pylist() == [ids[i] for i in order]
        np.testing.assert_allclose(score, scores[place][order], atol=1e-6)


def test_inverted_lists_above_the_flat_size_report_their_recall(tmp_path: Path) -> None:
    """Twenty tight clouds of points: what is near lies in the lists that are probed."""
    centres = unit_rows(20, dimension=32, seed=3)
    noise = np.random.default_rng(4).normal(scale=0.02, size=(2000, 32))
    matrix = (centres[np.arange(2000) % 20] + noise).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    ids = [hashed(n) for n in range(2000)]
    path = vectors(ids, matrix, tmp_path / "p.parquet")
    index, figures = built(tmp_path / "ivf", [path], flat_rows=1999, probes=48)
    assert figures["exact"] == 0
    assert json.loads((tmp_path / "ivf" / "index.json").read_text())["probes"] == 48
    assert float(str(figures["recall_at_100"])) > 0.9
    queries = matrix[::100]
    truth = np.argsort(-(queries @ matrix.T), axis=1)[:, :100]
    shared = [
        len({ids[i] for i in truth[place]} & set(found.to_pylist())) / 100
        for place, (found, _) in enumerate(index.search(queries, 100))
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
    for number, paths in enumerate(([], [path])):
        with pytest.raises(ValueError, match="no window to index"):
            built(tmp_path / str(number), paths)


def test_no_question(tmp_path: Path) -> None:
    index, _ = built(tmp_path / "i", [vectors([uid(1)], np.eye(1), tmp_path / "p.parquet")])
    assert index.search(np.zeros((0, 1), np.float32), 3) == []


def test_vectors_unpack() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    column = pa.chunked_array([[rows[0].tobytes()], [rows[1].tobytes()]], pa.binary())
    assert unpack_vectors(column).tolist() == rows.tolist()


@settings(max_examples=25, deadline=None)
@given(
    grades=st.lists(st.sampled_from([*GRADES, ""]), min_size=1, max_size=40),
    wanted=st.sets(st.sampled_from(GRADES)),
    k=st.integers(1, 12),
    shard_rows=st.integers(1, 30),
)
def test_a_partition_is_searched_as_if_it_were_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    grades: list[str],
    wanted: set[str],
    k: int,
    shard_rows: int,
) -> None:
    """Against brute force over the windows of these grades; without a grade a window counts E."""
    matrix, queries = unit_rows(len(grades)), unit_rows(3, seed=1)
    ids = [hashed(n) for n in range(len(grades))]
    folder = tmp_path_factory.mktemp("partition")
    half = len(ids) // 2
    paths = [
        vectors(ids[part], matrix[part], folder / f"{n}.parquet")
        for n, part in enumerate((slice(0, half), slice(half, None)))
    ]
    index, figures = built(
        folder / "i", paths, dict(zip(ids, grades, strict=True)), shard_rows=shard_rows
    )
    assert figures["windows"] == figures["exact"] == len(grades)
    inside = [n for n, g in enumerate(grades) if not wanted or (g or UNGRADED) in wanted]
    scores = queries @ matrix[inside].T
    for place, (found, score) in enumerate(index.search(queries, k, sorted(wanted))):
        assert found.to_pylist() == nearest([ids[n] for n in inside], scores[place], k)
        np.testing.assert_allclose(score, np.sort(scores[place])[::-1][:k], atol=1e-6)


def test_a_large_partition_has_lists_of_its_own_and_a_small_one_none(tmp_path: Path) -> None:
    matrix = unit_rows(1200)
    ids = [hashed(n) for n in range(1200)]
    grade = {key: "A" if n < 200 else "C" for n, key in enumerate(ids)}
    path = vectors(ids, matrix, tmp_path / "p.parquet")
    index, figures = built(tmp_path / "i", [path], grade, flat_rows=500, probes=40)
    assert (figures["exact"], figures["shards"]) == (200, 2)
    queries = unit_rows(20, seed=5)
    exact = [nearest(ids[:200], scores, 50) for scores in queries @ matrix[:200].T]
    assert names(index.search(queries, 50, ("A",))) == exact
    truth = np.argsort(-(queries @ matrix[200:].T), axis=1)[:, :50] + 200
    near = names(index.search(queries, 50, ("B", "C", "D", "E")))
    shared = [
        len({ids[n] for n in best} & set(found)) / 50
        for best, found in zip(truth, near, strict=True)
    ]
    assert float(np.mean(shared)) > 0.6
    assert not {key for found in near for key in found} & set(ids[:200])


def test_few_windows_of_a_grade_are_found_among_many_better_ones(tmp_path: Path) -> None:
    """Forty windows nearer to the question than the two of grade A: a shared list loses those."""
    matrix = unit_rows(42)
    scores = matrix @ matrix[0]
    ids = [hashed(n) for n in range(42)]
    worst = [ids[n] for n in np.argsort(scores)[:2]]
    grade = {key: "A" if key in worst else "E" for key in ids}
    path = vectors(ids, matrix, tmp_path / "p.parquet")
    index, _ = built(tmp_path / "i", [path], grade)
    assert not set(names(index.search(matrix[:1], 30))[0]) & set(worst)
    assert set(names(index.search(matrix[:1], 30, ("A",)))[0]) == set(worst)


def test_a_grade_without_a_window_finds_nothing(tmp_path: Path) -> None:
    path = vectors([uid(1)], np.eye(1), tmp_path / "p.parquet")
    index, _ = built(tmp_path / "i", [path], {uid(1): "B"})
    ((ids, scores),) = index.search(np.ones((1, 1), np.float32), 3, ("A",))
    assert (ids.to_pylist(), scores.tolist()) == ([], [])


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = vectors([uid(1), uid(2)], np.eye(2), tmp_path / "p.parquet")
    other = write([row(UNITS, unit_id=uid(1))], UNITS, tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="parts of the same names"):
        BuildDenseIndex().build({"vectors": [path], "windows": [other]}, tmp_path, Place())
    (tmp_path / "windows").mkdir()
    lacking = write([row(UNITS, unit_id=uid(1))], UNITS, tmp_path / "windows" / "p.parquet")
    with pytest.raises(ValueError, match=f"p.parquet: {uid(2)} has a vector and no window"):
        BuildDenseIndex().build({"vectors": [path], "windows": [lacking]}, tmp_path, Place())


def test_a_shard_of_no_grade_is_refused(tmp_path: Path) -> None:
    built(tmp_path / "i", [vectors([uid(1)], np.eye(1), tmp_path / "p.parquet")])
    (tmp_path / "i" / "shard-E-00000.faiss").rename(tmp_path / "i" / "shard-00000.faiss")
    with pytest.raises(ValueError, match="run the build again"):
        DenseIndex(tmp_path / "i")


def test_a_pool_holds_each_unit_by_its_best_score() -> None:
    """a: .9 and .1, b: .5 and .8, c: .7 alone."""
    searches = [
        (pa.array(["a", "c", "b"]), np.array([0.9, 0.7, 0.5], np.float32)),
        (pa.array(["b", "a"]), np.array([0.8, 0.1], np.float32)),
    ]
    ids, scores = pool(searches, 2)
    assert ids.to_pylist() == ["a", "b"]
    assert scores.tolist() == pytest.approx([0.9, 0.8])
    assert [len(part) for part in pool([], 2)] == [0, 0]


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
