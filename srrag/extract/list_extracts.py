"""The facts and the findings of what was extracted, a row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.schema import EXTRACTS, FINDINGS, TRIPLES
from srrag.core.spec import content_id
from srrag.core.step import Function, Place, Step

_KEY = ("unit_id", "head", "head_type", "relation", "tail", "tail_type")

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ListTriples(Step):
    """EXTRACTS → TRIPLES: each fact once; what does not stand is a reject with its reason."""

    reads: ClassVar[tuple[str, ...]] = tuple(EXTRACTS.names)
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""
        return partial(_listed, column="facts", row_of=_triple, schema=TRIPLES)


@dataclass(frozen=True, kw_only=True)
class ListFindings(Step):
    """EXTRACTS → FINDINGS: each finding once; what does not stand is a reject with its reason."""

    reads: ClassVar[tuple[str, ...]] = tuple(EXTRACTS.names)
    writes: ClassVar[pa.Schema] = FINDINGS
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""
        return partial(_listed, column="findings", row_of=_finding, schema=FINDINGS)


def _listed(
    batch: pa.Table, *, column: str, row_of: Callable[[Row, Row], Row], schema: pa.Schema
) -> pa.Table:
    """What each unit states, by the first name of the schema, which is its id."""
    rows: dict[str, Row] = {}
    for unit in batch.select(EXTRACTS.names).to_pylist():
        if unit["reject"] is None:
            for stated in unit[column]:
                row = {name: unit[name] for name in ("doc_id", "unit_id", "grade")} | stated
                row = row_of(row, stated)
                rows.setdefault(row[schema.names[0]], row)
    return pa.Table.from_pylist(list(rows.values()), schema=schema)


def _triple(row: Row, stated: Row) -> Row:
    reason = row.pop("reason")
    said = " ".join(filter(None, (row["head_type"], row["relation"], row["tail_type"])))
    # A rejected fact may share the words of one that stands, so its id includes quote and reason.
    extra = (reason, row["quote"]) if reason else ()
    row["fact_id"] = content_id(*(row[name] for name in _KEY), str(row["char_start"]), *extra)
    return row | _reject(reason, said or row["quote"])


def _finding(row: Row, stated: Row) -> Row:
    row["finding_id"] = content_id(row["unit_id"], repr(sorted(stated.items())))
    return row | _reject(row.pop("reason"), row["quote"])


def _reject(reason: str, detail: str) -> Row:
    """The column `reject` of what does not stand; null for what does."""
    told = {"stage": "extract", "reason": reason, "detail": detail[:200]}
    return {"reject": told if reason else None}
