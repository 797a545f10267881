"""Derive parts without some documents from existing parts, in each stage, without recomputing."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.stage import Plan, Stage
from srrag.runner.ingest import known_rows, write_segment
from srrag.runner.part import live
from srrag.storage import mirror
from srrag.storage.manifest import DamagedError, check_part
from srrag.storage.store import Store

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
    owners = known_rows(store, source, sorted({*former} - {*parts}))
    for part in sorted({*parts} - {*former}) if owners else ():
        table = store.read_part(plan.source, source, part, ["raw_id"])
        rows = set(table["raw_id"].to_pylist())
        found = {owners.get(row) for row in rows}
        if len(found) == 1 and (old := found.pop()) is not None:
            gone = {row for row, owner in owners.items() if owner == old} - rows
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
    """Whether a part is intact and its rows identify their documents."""
    if not set(OWNERS) & set(stage.step.writes.names):
        return False
    fingerprint = plan.fingerprint(stage.name)
    if not store.has_part(stage.name, fingerprint, part):
        return False
    path = mirror.fetch(store.part_path(stage.name, fingerprint, part))
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
    rest = table.filter(pc.invert(of_documents(table, *gone))).combine_chunks()
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
