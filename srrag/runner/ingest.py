"""Write a corpus as RAW parts: segments of at most 500 documents, named by their content.

A known document keeps its segment, so 1 % more documents make 1 % more parts. A segment that lost a
document is dissolved, and its remaining documents form a new one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.ids import content_id, segment_id
from srrag.core.spec import canonical
from srrag.corpus.record import RawRecord, raw_table
from srrag.storage.store import Store

SEGMENT_ROWS = 500
SEGMENT_BYTES = 64 << 20


def ingest(
    store: Store, fingerprint: str, records: Iterable[RawRecord], known_parts: Sequence[str]
) -> list[str]:
    """Write the segments of a scan; returns the names of all segments of the corpus.

    `known_parts` are the segments of the previous build. Memory holds one segment and 16 bytes for
    each known row.
    """
    known = known_rows(store, fingerprint, known_parts)
    seen: dict[str, set[str]] = defaultdict(set)
    written: list[str] = []
    for segment in segments(records, known, seen):
        written.append(write_segment(store, fingerprint, segment))
    kept, survivors = _kept_and_survivors(store, fingerprint, known_parts, seen)
    written.extend(write_segment(store, fingerprint, segment) for segment in survivors)
    return sorted({*kept, *written})


def known_rows(store: Store, fingerprint: str, parts: Sequence[str]) -> dict[str, str]:
    """Return the part of every existing raw row, by raw id."""
    standing = store.parts("raw", fingerprint)
    return {
        raw_id: part
        for part in parts
        if part in standing
        for raw_id in _raw_ids(store, fingerprint, part)
    }


def _raw_ids(store: Store, fingerprint: str, part: str) -> list[str]:
    """Read the ids of a part; they go into no output, so the file is not hashed first."""
    ids = store.read_part("raw", fingerprint, part, ["raw_id"], checked=False)["raw_id"]
    return list(ids.to_pylist())


def segments(
    records: Iterable[RawRecord], known: dict[str, str], seen: dict[str, set[str]]
) -> Iterator[pa.Table]:
    """Yield new records in segments; known rows are only noted in `seen`, by part."""
    rows: list[RawRecord] = []
    size = 0
    for record in records:
        raw_id = record.raw_id  # each access hashes the body
        part = known.get(raw_id)
        if part is not None:
            seen[part].add(raw_id)
            continue
        rows.append(record)
        size += len(record.body)
        if len(rows) == SEGMENT_ROWS or size >= SEGMENT_BYTES:
            yield raw_table(rows)
            rows, size = [], 0
    if rows:
        yield raw_table(rows)


def _kept_and_survivors(
    store: Store, fingerprint: str, parts: Sequence[str], seen: dict[str, set[str]]
) -> tuple[list[str], list[pa.Table]]:
    kept, survivors = [], []
    for part in parts:
        if part not in seen:
            continue
        # Bodies are long, so only the segments that lost a document are read again.
        if len(seen[part]) == len(_raw_ids(store, fingerprint, part)):
            kept.append(part)
        else:
            table = store.read_part("raw", fingerprint, part)
            here = pc.is_in(table["raw_id"], pa.array(sorted(seen[part])))
            survivors.append(table.filter(here))
    return kept, survivors


def write_segment(store: Store, fingerprint: str, table: pa.Table) -> str:
    """Write a segment if it is new; returns its name, the hash of its rows."""
    part = segment_id(table["raw_id"].to_pylist())
    _write_new(store, "raw", fingerprint, part, table)
    return part


def write_source(
    store: Store, stage: str, fingerprint: str, table: pa.Table, rows: int
) -> list[str]:
    """Write a table in parts of `rows` rows, unless they exist; returns the names in order.

    Equal rows in equal order make the same part, so a name may occur twice.
    """
    names = part_names(table, rows)
    for number, part in enumerate(names):
        _write_new(store, stage, fingerprint, part, table.slice(number * rows, rows))
    return names


def part_names(table: pa.Table, rows: int) -> list[str]:
    """Return the names that `write_source` gives to its parts."""
    ids = [content_id(canonical(row)) for row in table.to_pylist()]
    return [segment_id(ids[start : start + rows]) for start in range(0, len(ids), rows)]


def _write_new(store: Store, stage: str, fingerprint: str, part: str, table: pa.Table) -> None:
    if not store.has_part(stage, fingerprint, part):
        store.write_part(stage, fingerprint, part, table)
