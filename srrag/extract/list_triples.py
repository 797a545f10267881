"""The facts of what was extracted, a row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.ids import content_id
from srrag.core.schema import EXTRACTS, TRIPLES
from srrag.core.step import Function, Place, Step

_KEY = ("unit_id", "head", "head_type", "relation", "tail", "tail_type")


@dataclass(frozen=True, kw_only=True)
class ListTriples(Step):
    """EXTRACTS → TRIPLES: each fact once; what does not stand is a reject with its reason."""

    reads: ClassVar[tuple[str, ...]] = tuple(EXTRACTS.names)
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""
        return _listed


def _listed(batch: pa.Table) -> pa.Table:
    rows: dict[str, dict[str, Any]] = {}
    for unit in batch.select(ListTriples.reads).to_pylist():
        if unit["reject"] is None:
            for fact in unit["facts"]:
                row = _row(unit, fact)
                rows.setdefault(row["fact_id"], row)
    return pa.Table.from_pylist(list(rows.values()), schema=TRIPLES)


def _row(unit: dict[str, Any], fact: dict[str, Any]) -> dict[str, Any]:
    row = {name: unit[name] for name in ("doc_id", "unit_id", "grade")} | fact
    reason = row.pop("reason")
    said = " ".join(filter(None, (row["head_type"], row["relation"], row["tail_type"])))
    detail = (said or row["quote"])[:200]
    # A rejected fact may share the words of one that stands, so its id includes quote and reason.
    extra = (reason, row["quote"]) if reason else ()
    row["fact_id"] = content_id(*(row[name] for name in _KEY), str(row["char_start"]), *extra)
    row["reject"] = {"stage": "extract", "reason": reason, "detail": detail} if reason else None
    return row
