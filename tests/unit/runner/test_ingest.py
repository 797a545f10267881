from __future__ import annotations

from pathlib import Path

from srrag.corpus.record import RawRecord
from srrag.runner import ingest as module
from srrag.runner.ingest import ingest
from srrag.storage.store import Store
from tests.toys import records


def ids(store: Store, parts: list[str]) -> list[str]:
    return [
        row for part in parts for row in store.read_part("raw", "f", part)["source_id"].to_pylist()
    ]


def test_segments_are_bounded_and_named_by_content(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = ingest(store, "f", records(range(1200)), [])
    assert len(parts) == 3
    assert sorted(map(int, ids(store, parts))) == list(range(1200))
    assert ingest(Store(tmp_path / "again"), "f", records(range(1200)), []) == parts


def test_one_more_document_is_one_more_segment(tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = ingest(store, "f", records(range(1200)), [])
    after = ingest(store, "f", records(range(1201)), before)
    assert set(before) < set(after)
    assert len(after) == len(before) + 1


def test_a_lost_document_dissolves_its_segment_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = ingest(store, "f", records(range(1200)), [])
    fewer = [record for record in records(range(1200)) if record.source_id != "7"]
    after = ingest(store, "f", fewer, before)
    assert len(set(after) & set(before)) == 2
    assert sorted(map(int, ids(store, after))) == [n for n in range(1200) if n != 7]


def test_a_segment_is_bounded_in_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    big = [RawRecord("s", str(n), "text", b"x" * (module.SEGMENT_BYTES // 2)) for n in range(3)]
    assert len(ingest(store, "f", big, [])) == 2


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    assert ingest(Store(tmp_path), "f", [], []) == []
