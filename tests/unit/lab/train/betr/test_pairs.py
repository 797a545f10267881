from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from srrag.lab.train.betr.pair_file import PAIRS, Origin, read_pairs, sample_pairs, write_pairs

GRADES = {"w1": "A", "w2": "C", "w3": "", "w4": "B"}
CANDIDATES = {
    "q1": (["w1", "w2", "w3"], np.array([3.0, 2.0, 0.5])),
    "q2": (["w2", "w4"], np.array([1.0, 0.25])),
    "q3": (["w1"], np.array([9.0])),
}
GOLD = {"q1": {"w2": 2, "w3": 0}, "q2": {"w2": 1, "w4": 2}, "q3": {"w1": 1}}


def test_pairs_by_hand() -> None:
    """q1: w2 against w1 and w3 (judged, but irrelevant; ungraded, so E). q2 and q3 lack a class."""
    rows = sample_pairs(CANDIDATES, GOLD, GRADES).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("q1", -1.0, "C", "A"),
        ("q1", 1.5, "C", "E"),
    ]


def test_k_negatives_a_positive_drawn_once_each() -> None:
    names = [f"w{n}" for n in range(50)]
    grades = {name: "ABCDE"[n % 5] for n, name in enumerate(names)}
    candidates = {"q": (names, np.arange(50.0))}
    gold = {"q": {"w0": 1, "w7": 1}}
    pairs = sample_pairs(candidates, gold, grades, negatives=20)
    assert pairs.num_rows == 40
    first, second = (pairs["delta_s"].to_pylist()[part] for part in (slice(20), slice(20, 40)))
    assert len(set(first)) == len(set(second)) == 20
    assert 0.0 - 7 not in first
    assert 7.0 - 0 not in second
    assert sample_pairs(candidates, gold, grades, negatives=99).num_rows == 2 * 48


def test_what_is_drawn_depends_on_the_question_and_the_seed_alone() -> None:
    names = [f"w{n}" for n in range(50)]
    grades = dict.fromkeys(names, "B")
    one = {"q": (names, np.arange(50.0))}
    more = {"p": (names, np.arange(50.0)), **one}
    gold = {"q": {"w0": 1}, "p": {"w1": 1}}
    alone = sample_pairs(one, gold, grades).to_pylist()
    among = sample_pairs(more, gold, grades).to_pylist()
    assert alone == [row for row in among if row["query_id"] == "q"]
    assert alone != sample_pairs(one, gold, grades, seed=43).to_pylist()


def test_no_question_with_both_classes_is_an_error() -> None:
    with pytest.raises(ValueError, match="none of 3 questions has both"):
        sample_pairs(CANDIDATES, {}, GRADES)


def test_a_score_that_is_no_number_names_its_question() -> None:
    with pytest.raises(ValueError, match="question q: "):
        sample_pairs({"q": (["w1", "w2"], np.array([1.0, np.nan]))}, GOLD, GRADES)


def test_the_file_keeps_its_origin(tmp_path: Path) -> None:
    origin = Origin(num_queries=3, reranker="Step@1", negatives=20, depth=100, seed=42)
    path = tmp_path / "new" / "pairs.parquet"
    write_pairs(path, sample_pairs(CANDIDATES, GOLD, GRADES), origin)
    assert read_pairs(path).origin == origin
    assert pq.read_schema(path).equals(PAIRS)
