from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.schema import ENTITIES
from srrag.index.graph import WindowSpans, mentioned

SPAN = st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 12)).map(
    lambda item: (item[0], item[1], item[1] + item[2])
)


def arrays(spans: list[tuple[str, int, int]]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    documents = pa.array([document for document, _, _ in spans], pa.string())
    return (
        documents,
        np.array([start for _, start, _ in spans], np.int64),
        np.array([end for _, _, end in spans], np.int64),
    )


@settings(deadline=None)
@given(st.lists(SPAN, max_size=8), st.lists(SPAN, max_size=8))
def test_pairs_are_the_spans_that_share_a_character(
    windows: list[tuple[str, int, int]], mentions: list[tuple[str, int, int]]
) -> None:
    """Also where windows lie within each other, and where a mention is empty: then its place."""
    found = WindowSpans(*arrays(windows)).overlapping(*arrays(mentions))
    expected = {
        (m, w)
        for m, (document, start, end) in enumerate(mentions)
        for w, (other, window_start, window_end) in enumerate(windows)
        if document == other and window_start < max(end, start + 1) and start < window_end
    }
    pairs = list(zip(*(side.tolist() for side in found), strict=True))
    assert set(pairs) == expected
    assert len(pairs) == len(expected)


def test_each_window_lists_what_it_mentions_once(tmp_path: Path) -> None:
    def mention(document: str, start: int) -> dict[str, object]:
        place = {"unit_id": "chunk", "doc_id": document, "char_start": start}
        return {"name": "", **place, "char_end": start + 2}

    rows = [[mention("d", 1), mention("d", 3)], [mention("d", 9)], [mention("gone", 1)], []]
    table = [
        {"entity_id": str(n), "name": "", "type": "", "mentions": row} for n, row in enumerate(rows)
    ]
    pq.write_table(pa.Table.from_pylist(table, schema=ENTITIES), tmp_path / "entities.parquet")
    spans = WindowSpans(*arrays([("d", 0, 10), ("d", 8, 20), ("e", 0, 10)]))
    members, offsets, lost = mentioned(tmp_path / "entities.parquet", np.arange(4), spans)
    assert members.tolist() == [0, 1, 1]
    assert offsets.tolist() == [0, 2, 3, 3]
    assert lost == 1
    chosen = np.array([-1, 5, -1, -1])
    assert mentioned(tmp_path / "entities.parquet", chosen, spans)[0].tolist() == [5, 5]
