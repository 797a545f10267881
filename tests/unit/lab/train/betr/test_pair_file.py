from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.lab.train.betr import pair_file
from srrag.lab.train.betr.pair_file import (
    PAIRS,
    Origin,
    read_pairs,
    sample_pairs,
    write_pairs,
)
from tests.simulated_pairs import TABLE_1, pairs_table, simulate_pairs

GOOD = {
    "query_id": ["a", "b", "a"],
    "delta_s": [1.0, -2.0, 0.5],
    "grade_pos": ["A", "E", "C"],
    "grade_neg": ["B", "A", "C"],
}


def written(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_reads_what_was_written(tmp_path: Path) -> None:
    file = read_pairs(written(tmp_path, GOOD))
    assert file.query_ids == ["a", "b"]
    assert file.pairs.delta_s.tolist() == [1.0, -2.0, 0.5]
    assert file.pairs.cell.tolist() == [1, 20, 12]
    assert file.pairs.query.tolist() == [0, 1, 0]
    assert file.pairs.weight.tolist() == [0.5, 1.0]
    assert file.origin is None


def test_row_groups_and_batches_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pairs_table(simulate_pairs(TABLE_1, num_queries=40))
    columns = dict(zip(table.column_names, table.columns, strict=True))
    whole = read_pairs(written(tmp_path, columns))
    monkeypatch.setattr(pair_file, "_BATCH_ROWS", 77)
    parts = read_pairs(written(tmp_path, columns, row_group_size=100))
    assert parts.fingerprint == whole.fingerprint
    assert parts.query_ids == whole.query_ids
    assert np.array_equal(parts.pairs.query, whole.pairs.query)


def test_the_fingerprint_is_that_of_every_column(tmp_path: Path) -> None:
    found = {read_pairs(written(tmp_path, GOOD)).fingerprint}
    for name, value in (
        ("query_id", "c"),
        ("delta_s", 0.6),
        ("grade_pos", "D"),
        ("grade_neg", "D"),
    ):
        found.add(
            read_pairs(written(tmp_path, {**GOOD, name: [*GOOD[name][:2], value]})).fingerprint
        )
    assert len(found) == 5


@pytest.mark.parametrize("ids", [[7, 8, 7], pa.array(["a", "b", "a"]).dictionary_encode()])
def test_other_kinds_of_ids_are_read(tmp_path: Path, ids: Any) -> None:
    assert len(read_pairs(written(tmp_path, {**GOOD, "query_id": ids})).query_ids) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grade_pos": ["A", "E", "F"]}, r"row 3, column 'grade_pos': 'F' is not one of A, B"),
        ({"grade_neg": ["B", "", "C"]}, r"row 2, column 'grade_neg': '' is not one of"),
        ({"grade_neg": ["B", None, "C"]}, r"row 2, column 'grade_neg': there is no value"),
        ({"delta_s": [1.0, float("nan"), 1.0]}, r"row 2, column 'delta_s': nan is no finite"),
        ({"delta_s": [1.0, 1.0, float("-inf")]}, r"row 3, column 'delta_s': -inf is no finite"),
        ({"delta_s": [1.0, None, 1.0]}, r"row 2, column 'delta_s': there is no value"),
        ({"delta_s": ["1", "2", "3"]}, r"column 'delta_s' holds string, not numbers"),
        ({"query_id": ["a", None, "b"]}, r"row 2, column 'query_id': there is no value"),
        ({"grade_pos": ["B"] * 3, "grade_neg": ["B"] * 3}, r"no pair has two different grades"),
        ({"grade_pos": [["B"]] * 3}, r"column 'grade_pos' holds list"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path, {**GOOD, **change})
    with pytest.raises(ValueError, match=message) as caught:
        read_pairs(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_are_counted_over_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_file, "_BATCH_ROWS", 2)
    with pytest.raises(ValueError, match="row 3, column 'grade_pos'"):
        read_pairs(written(tmp_path, {**GOOD, "grade_pos": ["A", "E", "x"]}))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_pairs(tmp_path / "nothing")
    (tmp_path / "text").write_text("query_id,delta_s\n")
    with pytest.raises(ValueError, match="not a Parquet file"):
        read_pairs(tmp_path / "text")
    with pytest.raises(ValueError, match="column 'grade_neg' is missing"):
        read_pairs(written(tmp_path, {k: v for k, v in GOOD.items() if k != "grade_neg"}))
    empty = {name: pa.array([], "string" if name != "delta_s" else "double") for name in GOOD}
    with pytest.raises(ValueError, match="there is no pair"):
        read_pairs(written(tmp_path, empty))


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
