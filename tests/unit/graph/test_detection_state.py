from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.algo.affinity import Basis
from srrag.algo.local_moving import DetectionState
from srrag.graph.communities import DETECTION, resume, save
from srrag.graph.nodes import Nodes


def nodes(ids: str, edges: str, types: str = "t") -> Nodes:
    """A graph whose ids and relations are letters: "abc", "ab bc"."""
    place = {letter: row for row, letter in enumerate(ids)}
    pairs = [(place[one], place[two]) for one, two in edges.split()]
    return Nodes(
        ids=pa.array(list(ids)),
        owner=np.arange(len(ids)),
        is_core=np.ones(len(ids), bool),
        core_ids=pa.array(list(ids)),
        names=pa.array(list(ids)),
        types=np.zeros(len(ids), int),
        type_names=types.split(),
        heads=np.array([head for head, _ in pairs], int),
        tails=np.array([tail for _, tail in pairs], int),
        relations=np.zeros(len(pairs), int),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Entities a to d, each near to the next, in two communities."""
    standing = DetectionState(
        labels=np.array([0, 0, 1, 1]),
        places=np.eye(4, dtype=np.float32),
        near=np.array([[1], [2], [3], [0]]),
        name_degrees=np.array([0.1, 0.2, 0.3, 0.4]),
        basis=Basis(np.array([[1.0], [2.0]], np.float32), np.ones((1, 1), np.float32)),
        density=0.5,
    )
    save(tmp_path / DETECTION, nodes("abcd", "ab bc cd", "age t"), standing, 3)
    return tmp_path / DETECTION


def test_what_stands_is_found_under_its_new_row(saved: Path) -> None:
    found = resume(saved, pa.chunked_array([list("abcd")]), nodes("Aabcd", "ab bc cd"))
    assert found.standing.labels.tolist() == [-1, 0, 0, 1, 1]
    assert found.standing.near[1:, 0].tolist() == [2, 3, 4, 1]
    assert found.standing.near[0].tolist() == [0], "what is new is near to nothing yet"
    assert found.standing.name_degrees == pytest.approx([0, 0.1, 0.2, 0.3, 0.4], abs=1e-6)
    assert not found.touched.any()
    assert found.drift == 3 + 1


def test_who_won_or_lost_a_relation_is_touched(saved: Path) -> None:
    ids = pa.chunked_array([list("abcd")])
    assert resume(saved, ids, nodes("abcd", "cb ab dc")).touched.tolist() == [False] * 4
    assert resume(saved, ids, nodes("abcd", "ab bc cd ab")).touched.tolist() == [1, 1, 0, 0]
    assert resume(saved, ids, nodes("abcd", "ab cd ad")).touched.tolist() == [1, 1, 1, 1]


def test_who_lost_a_neighbour_is_touched_and_near_to_it_no_more(saved: Path) -> None:
    found = resume(saved, pa.chunked_array([list("abcd")]), nodes("acd", "cd"))
    assert found.touched.tolist() == [True, True, False]
    assert found.standing.near[:, 0].tolist() == [0, 2, 0], "a is near to itself, for want of b"
    assert found.drift == 3 + 1 + 2


def test_types_keep_their_means_whatever_their_number_is_now(saved: Path) -> None:
    found = resume(saved, pa.chunked_array([list("abcd")]), nodes("abcd", "", "dose t zone"))
    assert found.standing.basis.means.tolist() == [[0], [2], [0]]
