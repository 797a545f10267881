from __future__ import annotations

import faiss
import numpy as np
import pytest

from srrag.algo import affinity
from srrag.algo.affinity import (
    Basis,
    affinity_graph,
    all_name_affinities,
    link_matrix,
    nearest,
    nearest_in_groups,
    shared_neighbours,
    subgraph_vectors,
)


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_links_count_relations_both_ways_and_no_loops() -> None:
    found = link_matrix(np.array([0, 1, 0, 2]), np.array([1, 0, 1, 2]), 3)
    assert found.toarray().tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]


def test_an_entity_takes_up_the_mean_of_its_neighbours() -> None:
    """Without type means: (1, 0) + (0, 1) is (1, 1) / √2 for both; the one without links stays."""
    vectors = unit(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    links = link_matrix(np.array([0]), np.array([1]), 3)
    types = np.array([0, 1, 2])  # one entity a type: a mean of 1/11 of it, in its own direction
    coordinates = Basis.fit(vectors, types).coordinates(vectors, types)
    found = subgraph_vectors(coordinates, links, hops=1)
    half = 0.5**0.5
    assert found == pytest.approx(np.array([[half, half], [half, half], [0.6, 0.8]]), abs=1e-6)


def test_what_all_names_of_a_type_share_is_taken_off() -> None:
    rng = np.random.default_rng(0)
    topic = rng.normal(size=(400, 8))
    vectors = unit(np.hstack([topic, np.full((400, 1), 20.0)]))
    types = np.zeros(400, dtype=int)
    coordinates = Basis.fit(vectors, types).coordinates(vectors, types)
    found = subgraph_vectors(coordinates, link_matrix(*np.zeros((2, 0), int), 400))
    assert abs((found @ found.T).mean()) < 0.1 < 0.8 < (vectors @ vectors.T).mean()


def test_nearest_without_itself_even_among_equals() -> None:
    vectors = unit(np.array([[1.0, 0.0]] * 4 + [[0.0, 1.0]]))
    rows, cosines = nearest(vectors, 2)
    assert rows.shape == cosines.shape == (5, 2)
    assert not (rows == np.arange(5)[:, None]).any()
    assert cosines[:4] == pytest.approx(np.ones((4, 2)))


def test_the_first_row_may_be_a_neighbour() -> None:
    rows, cosines = nearest(unit(np.array([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]])), 1)
    assert rows.tolist() == [[1], [0], [1]]
    assert cosines == pytest.approx(np.array([[0.8], [0.8], [-0.8]]))


def test_the_directions_of_least_variance_are_left_out() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(300, affinity.DIMENSIONS + 2))
    vectors[:, :2] *= 1e-4
    directions = Basis.fit(unit(vectors), np.zeros(300, dtype=int)).directions
    assert directions.shape == (affinity.DIMENSIONS + 2, affinity.DIMENSIONS)
    assert directions.T @ directions == pytest.approx(np.eye(affinity.DIMENSIONS), abs=1e-5)
    assert np.abs(directions[:2]).max() < 0.01


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_fewer_rows_than_neighbours(n: int) -> None:
    rows, cosines = nearest(unit(np.eye(3)[:n]), 10)
    assert rows.shape == cosines.shape == (n, max(0, n - 1))


def test_the_nearest_in_groups_are_those_of_a_whole_search_where_groups_are_apart() -> None:
    rng = np.random.default_rng(2)
    vectors = unit(
        np.repeat(rng.normal(size=(20, 16)), 15, axis=0) + 0.1 * rng.normal(size=(300, 16))
    )
    groups = np.arange(300) // 15
    groups[:15] = -1
    chosen = np.array([3, 100, 299])
    whole, _ = nearest(vectors)
    found = nearest_in_groups(vectors, chosen, groups)
    assert [set(row) for row in found.tolist()] == [set(row) for row in whole[chosen].tolist()]


def test_a_row_stands_for_neighbours_that_are_not_there() -> None:
    vectors = unit(np.eye(3))
    found = nearest_in_groups(vectors, np.array([1]), np.array([-1, -1, -1]), 4)
    assert sorted(found[0].tolist()) == [0, 1, 1, 2]
    alone = nearest_in_groups(vectors[:1], np.array([0]), np.array([0]), 2)
    assert alone.tolist() == [[0, 0]]


def test_lists_find_nearly_what_an_exact_search_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    vectors = unit(
        np.repeat(rng.normal(size=(150, 16)), 20, axis=0) + 0.2 * rng.normal(size=(3000, 16))
    )
    exact, _ = nearest(vectors)
    monkeypatch.setattr(affinity, "_EXACT", 100)
    listed, cosines = nearest(vectors)
    common = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), listed.tolist(), strict=True)]
    assert np.mean(common) > 9.5
    assert (np.diff(cosines, axis=1) <= 1e-6).all()


def test_lists_find_what_the_scan_of_an_index_finds() -> None:
    vectors = unit(np.random.default_rng(4).normal(size=(3000, 16)))
    index = faiss.index_factory(16, "IVF11,Flat", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed, index.cp.max_points_per_centroid = 5, 1, 64
    index.train(vectors)
    index.add(vectors)
    index.nprobe = 8
    scanned, rows = index.search(vectors, 5)
    cosines, found = affinity._search_lists(vectors, 5)
    assert cosines == pytest.approx(scanned, abs=1e-6)
    assert (found == rows).mean() > 0.999  # but for ties


def test_equal_rows_choose_the_same_neighbours_in_lists() -> None:
    """Forty copies of a row are each other's nearest: all of them name the first eleven copies."""
    rng = np.random.default_rng(4)
    vectors = unit(rng.normal(size=(3000, 16)))
    vectors[::75] = vectors[0]
    _, found = affinity._search_lists(vectors, 11)
    assert found.dtype == np.int32
    assert (np.sort(found[::75]) == 75 * np.arange(11)).all()


def test_lists_find_each_row_once_and_leave_the_other_places_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight of ten lists hold fewer than all the rows that are asked for."""
    monkeypatch.setattr(affinity, "_LIST_ROWS", 40)
    vectors = unit(np.random.default_rng(4).normal(size=(400, 4)))
    cosines, found = affinity._search_lists(vectors, 400)
    for row in found:
        assert len(set(row[row >= 0])) == (row >= 0).sum() < 400
    there = found >= 0
    assert cosines[there] == pytest.approx(
        (vectors @ vectors.T)[np.nonzero(there)[0], found[there]], abs=1e-6
    )


def test_shared_neighbours_by_hand() -> None:
    """{0, 1, 2} and {1, 0, 2} are equal; {2, 0, 3} shares two of four with {0, 1, 2}."""
    rows = np.array([[1, 2], [0, 2], [0, 3], [2, 0]])
    found = shared_neighbours(rows, np.array([0, 0, 3, 3]), np.array([1, 2, 2, 0]))
    assert found == pytest.approx([1.0, 2 / 4, 1.0, 2 / 4])


def test_affinity_by_hand() -> None:
    """A relation weighs 1, a neighbour ½ × cosine × shared; opposite names nothing."""
    links = link_matrix(np.array([0]), np.array([1]), 3)
    rows = np.array([[1, 2], [0, 2], [0, 1]])
    cosines = np.array([[0.8, -0.4], [0.8, 0.0], [-0.4, 0.0]])
    found = affinity_graph(links, all_name_affinities(rows, cosines)).toarray()
    assert found == pytest.approx(np.array([[0, 1.4, 0], [1.4, 0, 0], [0, 0, 0]]))


def test_a_row_that_the_lists_find_too_little_for_is_its_own_neighbour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The third row found one neighbour of two: itself takes the other place, with cosine 0."""
    rows = np.array([[0, 1, 2], [1, 0, 2], [2, 1, -1]])
    cosines = np.array([[1, 0.5, 0.4], [1, 0.5, 0.3], [1, 0.3, -np.inf]], dtype=np.float32)
    monkeypatch.setattr(affinity, "_search", lambda vectors, k: (cosines, rows))
    found, scores = nearest(unit(np.eye(3)), 2)
    assert found.tolist() == [[1, 2], [0, 2], [1, 2]]
    assert scores[2] == pytest.approx([0.3, 0.0])
