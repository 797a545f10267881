"""Write a corpus as RAW parts: segments of at most 500 documents, named by their content.

A document that already stands keeps its segment, so that 1 % more documents make 1 % more
parts. A segment that lost a document is dissolved, and its survivors form a new one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from srrag.corpus.record import RawRecord, raw_table
from srrag.ids import segment_id
from srrag.runner.part import count_reasons
from srrag.storage.store import Receipt, Store

SEGMENT_ROWS = 500
SEGMENT_BYTES = 64 << 20


def ingest(
    store: Store, fingerprint: str, records: Iterable[RawRecord], known_parts: Sequence[str]
) -> list[str]:
    """Write the segments of a scan and return the names of all that make up the corpus.

    `known_parts` are those of the build before. Memory is bounded by one segment and 16 bytes
    a known row.
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
    """The part of every raw row that stands."""
    standing = store.parts("raw", fingerprint)
    return {
        raw_id: part
        for part in parts
        if part in standing
        for raw_id in _raw_ids(store, fingerprint, part)
    }


def _raw_ids(store: Store, fingerprint: str, part: str) -> list[str]:
    """The ids of a part's rows; nothing is made of them, so the part is not hashed."""
    ids = store.read_part("raw", fingerprint, part, ["raw_id"], checked=False)["raw_id"]
    return list(ids.to_pylist())


def segments(
    records: Iterable[RawRecord], known: dict[str, str], seen: dict[str, set[str]]
) -> Iterator[pa.Table]:
    """New records in segments; rows that are known are noted in `seen` by their part."""
    rows: list[RawRecord] = []
    size = 0
    for record in records:
        raw_id = record.raw_id  # hashes the body each time that it is asked for
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
        # Bodies are long, and most segments lose no document: only of the others they are read.
        if len(seen[part]) == len(_raw_ids(store, fingerprint, part)):
            kept.append(part)
        else:
            table = store.read_part("raw", fingerprint, part)
            here = pc.is_in(table["raw_id"], pa.array(sorted(seen[part])))
            survivors.append(table.filter(here))
    return kept, survivors


def write_segment(store: Store, fingerprint: str, table: pa.Table) -> str:
    """Write a segment unless it stands; returns its name, the hash of its rows."""
    started = time.perf_counter()
    part = segment_id(table["raw_id"].to_pylist())
    reasons = count_reasons(table)

    def receipt(sha256: str, num_bytes: int) -> Receipt:
        return Receipt(
            part=part,
            rows_in=table.num_rows,
            skipped=0,
            failed=0,
            rows_out=table.num_rows,
            rejected=sum(reasons.values()),
            sha256=sha256,
            num_bytes=num_bytes,
            seconds=round(time.perf_counter() - started, 4),
            reasons=reasons,
        )

    if not store.has_part("raw", fingerprint, part):
        store.write_part("raw", fingerprint, table, receipt)
    return part
