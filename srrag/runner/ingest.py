"""Write a corpus as RAW parts: segments of at most 500 documents, named by their content.

A known document keeps its segment, so 1 % more documents make 1 % more parts. A segment that lost a
document is dissolved, and its remaining documents form a new one, whose parts in later stages are
derived from the former ones.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import RAW
from srrag.core.spec import canonical, content_id, segment_id
from srrag.core.stage import Plan, Stage
from srrag.corpus.record import RawRecord, raw_table
from srrag.runner.part import live
from srrag.storage import mirror
from srrag.storage.manifest import DamagedError, check_part
from srrag.storage.store import Store

SEGMENT_ROWS = 500
SEGMENT_BYTES = 64 << 20


def ingest(
    store: Store, fingerprint: str, records: Iterable[RawRecord], known_parts: Sequence[str]
) -> list[str]:
    """Write the segments of a scan; returns the names of all segments of the corpus.

    `known_parts` are the segments of the previous build. Memory holds one segment, and some 120
    bytes for each known row, 270 for one that the scan has found again.
    """
    known = known_rows(store, fingerprint, known_parts)
    seen: dict[str, set[str]] = defaultdict(set)
    written: list[str] = []
    for segment in segments(records, known, seen):
        written.append(write_segment(store, fingerprint, segment))
    kept, survivors = _kept_and_survivors(store, fingerprint, known_parts, seen)
    written.extend(write_segment(store, fingerprint, segment) for segment in survivors)
    return sorted({*kept, *written})


def standing_parts(store: Store, plan: Plan, name: str) -> list[str]:
    """Return the segments that a scan for a build keeps: those that its pointer names.

    Without a pointer, those of the newest other build of this source. Without any, all that stand,
    as a first build that was killed leaves them; damaged ones are left out.
    """
    fingerprint = plan.fingerprint(plan.source)
    if store.pointer_path(name).exists():
        own: list[str] = store.read_pointer(name)["stages"].get(plan.source, {}).get("parts", [])
        return own
    for build in sorted(store.builds(), key=lambda b: -store.pointer_path(b).stat().st_mtime):
        with suppress(ValueError):  # a damaged pointer, which its own build mends
            entry = store.read_pointer(build)["stages"].get(plan.source, {})
            if entry.get("fingerprint") == fingerprint:
                return list(entry.get("parts", []))
    parts = sorted(store.parts(plan.source, fingerprint))
    return [part for part in parts if _intact(store, plan.source, fingerprint, part)]


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


OWNERS = ("raw_id", "doc_id", "unit_id")
"""Columns that identify the document of a row."""


def of_documents(table: pa.Table, documents: Collection[str], units: Collection[str]) -> pa.Array:
    """Return a mask of the rows of these documents, by the first of OWNERS in the table."""
    column = next(name for name in OWNERS if name in table.column_names)
    ids = units if column == "unit_id" else documents
    return pc.is_in(table[column].combine_chunks(), pa.array(sorted(ids), pa.string()))


def units_of(
    store: Store, plan: Plan, part: str, documents: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the units of documents in all stages of a part, as pairs (document, unit)."""
    for stage in plan.steps:
        has_units = {"doc_id", "unit_id"} <= set(stage.step.writes.names)
        if has_units and _whole(store, plan, stage, part):
            fingerprint = plan.fingerprint(stage.name)
            table = store.read_part(stage.name, fingerprint, part, ["doc_id", "unit_id"])
            rows = table.filter(of_documents(table, documents, ())).to_pydict()
            yield from zip(rows["doc_id"], rows["unit_id"], strict=True)


def take_over(store: Store, plan: Plan, former: Sequence[str], parts: Sequence[str]) -> None:
    """Fill new segments that hold the remaining documents of a former one with its rows."""
    source = plan.fingerprint(plan.source)
    kept = {*parts} & {*former}
    owners = known_rows(store, source, [part for part in former if part not in kept])
    for part in sorted({*parts} - kept) if owners else ():
        table = store.read_part(plan.source, source, part, ["raw_id"])
        rows = set(table["raw_id"].to_pylist())
        found = {owners.get(row) for row in rows}
        if len(found) == 1 and (old := found.pop()) is not None:
            gone = {*_raw_ids(store, source, old)} - rows
            derive_part(store, plan, old, gone)


def derive_part(store: Store, plan: Plan, part: str, documents: Collection[str]) -> str | None:
    """Write a part without some documents, in every stage, under a new name.

    Returns the name, or None if no document is left. Damaged parts and the parts made from them are
    skipped; the next build makes them again.
    """
    source = plan.fingerprint(plan.source)
    table = store.read_part(plan.source, source, part)
    rest = table.filter(pc.invert(of_documents(table, documents, ()))).combine_chunks()
    if not rest.num_rows:
        return None
    name = write_segment(store, source, rest)
    units = {unit for _, unit in units_of(store, plan, part, documents)}
    for stage in plan.steps:
        before = plan.fingerprint(stage.inputs[0])
        if (
            not store.has_part(stage.name, plan.fingerprint(stage.name), name)
            and store.has_part(stage.inputs[0], before, name)
            and _whole(store, plan, stage, part)
        ):
            _derive(store, plan, stage, (part, name), (documents, units))
    return name


def _whole(store: Store, plan: Plan, stage: Stage, part: str) -> bool:
    """Whether a part is intact and its rows, or those that they were made of, have documents."""
    named = [stage.name]
    if not _owned(plan, stage.name):
        named += stage.inputs
        if not (stage.step.keeps_rows and _owned(plan, stage.inputs[0])):
            return False
    return all(_intact(store, name, plan.fingerprint(name), part) for name in named)


def _owned(plan: Plan, name: str) -> bool:
    """Whether the rows of a stage identify their documents."""
    writes = next((stage.step.writes for stage in plan.steps if stage.name == name), RAW)
    return not set(OWNERS).isdisjoint(writes.names)


def _intact(store: Store, stage: str, fingerprint: str, part: str) -> bool:
    """Whether a part stands and is what was written."""
    if not store.has_part(stage, fingerprint, part):
        return False
    path = mirror.fetch(store.part_path(stage, fingerprint, part))
    mirror.bring(path.with_suffix(".json"))
    try:
        check_part(path)
    except DamagedError:
        return False
    return True


def _derive(
    store: Store,
    plan: Plan,
    stage: Stage,
    names: tuple[str, str],
    gone: tuple[Collection[str], Collection[str]],
) -> None:
    started = time.perf_counter()
    old, new = names
    fingerprint, before = plan.fingerprint(stage.name), stage.inputs[0]
    table = store.read_part(stage.name, fingerprint, old)
    named = table
    if not _owned(plan, stage.name):  # each row was made of a live one of the input
        named = live(store.read_part(before, plan.fingerprint(before), old))
    rest = table.filter(pc.invert(of_documents(named, *gone))).combine_chunks()
    former = store.read_receipt(stage.name, fingerprint, old)
    source = store.read_part(before, plan.fingerprint(before), new)
    store.write_part(
        stage.name,
        fingerprint,
        new,
        rest,
        rows_in=source.num_rows,
        skipped=source.num_rows - live(source).num_rows,
        failed=_failed(rest, stage.name, former.failed),
        usage=former.usage,  # these calls were paid, even if their rows are gone
        started=started,
    )


def _failed(table: pa.Table, stage: str, most: int) -> int:
    """Count the rejects of the stage itself, at most `most`, the former number of failures."""
    if "reject" not in table.column_names or not most:
        return 0
    stages = pc.struct_field(table["reject"], "stage")
    return min(most, pc.sum(pc.equal(stages, stage)).as_py() or 0)
