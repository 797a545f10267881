from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from srrag.core.hits import FoundWindows, best_places, unpack_hits
from srrag.core.schema import HITS, PATHS


def ranked(rows: list[list[tuple[str, float]]]) -> list[tuple[pa.Array, np.ndarray]]:
    return [
        (
            pa.array([name for name, _ in row], pa.string()),
            np.array([score for _, score in row], np.float32),
        )
        for row in rows
    ]


def test_ranks_start_at_one_in_every_list() -> None:
    hits = FoundWindows.of(ranked([[("a", 2.0), ("b", 1.0)], [], [("a", 0.5)]])).hits()
    assert hits.type.equals(HITS)
    assert hits.to_pylist() == [
        [{"unit_id": "a", "score": 2.0, "rank": 1}, {"unit_id": "b", "score": 1.0, "rank": 2}],
        [],
        [{"unit_id": "a", "score": 0.5, "rank": 1}],
    ]


def test_no_question() -> None:
    hits = FoundWindows.of([]).hits()
    assert hits.type.equals(HITS)
    ids, scores, offsets = unpack_hits(pa.chunked_array([hits]))
    assert len(ids) == len(scores) == 0
    assert offsets.tolist() == [0]


def test_a_column_without_chunks() -> None:
    ids, scores, offsets = unpack_hits(pa.chunked_array([], HITS))
    assert len(ids) == len(scores) == 0
    assert offsets.tolist() == [0]


def test_finds_have_a_path_each_empty_where_none_led() -> None:
    two = ranked([[("a", 2.0)], [], [("b", 1.0), ("c", 0.5)]])
    found = FoundWindows.of(two)
    assert found.ranks.tolist() == [1, 1, 2]
    blank = {"entity_id": "", "edge_id": "", "community_id": ""}
    assert found.path_lists().to_pylist() == [[blank], [], [blank, blank]]
    names = [[pa.array([f"{kind}-{n}" for n, _ in row]) for kind in "ndk"] for row in (
        [("a", 0)], [], [("b", 0), ("c", 0)]
    )]  # fmt: skip
    led = FoundWindows.of(two, names).path_lists()
    assert led.type.equals(PATHS)
    assert led.to_pylist()[2][1] == {"entity_id": "n-c", "edge_id": "d-c", "community_id": "k-c"}
    assert FoundWindows.of([]).hits().to_pylist() == []


ROWS = st.lists(
    st.lists(
        st.tuples(st.text("abc", max_size=2), st.floats(width=32, allow_nan=False)), max_size=4
    )
)


@given(rows=ROWS, start=st.integers(0, 5), length=st.integers(0, 5))
def test_what_goes_in_comes_out_of_any_slice(
    rows: list[list[tuple[str, float]]], start: int, length: int
) -> None:
    column = pa.chunked_array(
        [FoundWindows.of(ranked(rows[:2])).hits(), FoundWindows.of(ranked(rows[2:])).hits()]
    )
    ids, scores, offsets = unpack_hits(column.slice(start, length))
    flat = list(zip(ids.to_pylist(), scores.tolist(), strict=True))
    assert len(offsets) == len(rows[start : start + length]) + 1
    for place, row in enumerate(rows[start : start + length]):
        assert flat[offsets[place] : offsets[place + 1]] == row


def test_the_best_of_each_document_by_hand() -> None:
    """Two questions; documents 7 and 8 stand in both."""
    scores = np.array([0.1, 0.9, 0.5, 0.9, 0.2, 0.3])
    rows = np.array([0, 0, 0, 0, 1, 1])
    documents = np.array([7, 8, 7, 8, 7, 8])
    assert best_places(scores, rows, documents).tolist() == [2, 1, 2, 1, 4, 5]


def test_nothing_has_no_best() -> None:
    none = np.zeros(0, np.int64)
    assert best_places(np.zeros(0), none, none).tolist() == []
