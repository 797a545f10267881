"""The findings of what was extracted, a row for each outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.ids import content_id
from srrag.core.schema import EXTRACTS, FINDINGS
from srrag.core.step import Function, Place, Step


@dataclass(frozen=True, kw_only=True)
class ListFindings(Step):
    """EXTRACTS → FINDINGS: each finding once; what does not stand is a reject with its reason."""

    reads: ClassVar[tuple[str, ...]] = tuple(EXTRACTS.names)
    writes: ClassVar[pa.Schema] = FINDINGS
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""
        return _listed


def _listed(batch: pa.Table) -> pa.Table:
    rows: dict[str, dict[str, Any]] = {}
    for unit in batch.select(ListFindings.reads).to_pylist():
        if unit["reject"] is None:
            for finding in unit["findings"]:
                row = _row(unit, finding)
                rows.setdefault(row["finding_id"], row)
    return pa.Table.from_pylist(list(rows.values()), schema=FINDINGS)


def _row(unit: dict[str, Any], finding: dict[str, Any]) -> dict[str, Any]:
    row = {name: unit[name] for name in ("doc_id", "unit_id", "grade")} | finding
    reason = row.pop("reason")
    row["finding_id"] = content_id(row["unit_id"], repr(sorted(finding.items())))
    row["reject"] = (
        {"stage": "extract", "reason": reason, "detail": row["quote"][:200]} if reason else None
    )
    return row
