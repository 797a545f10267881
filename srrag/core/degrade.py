"""Let auxiliary steps fail: the question goes on without them, and its trace records the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from srrag.core.schema import REJECT
from srrag.core.step import LLMStep, Step

KEYS = {
    "truncated": "max_tokens",
    "whitespace": "max_tokens",
    "too_long": "engine.max_model_len",
    "timeout": "engine.timeout_s",
}
"""The setting to raise for each fault; a fault that is not here may pass on a retry (`again`)."""


def spare(step: Step, table: pa.Table) -> tuple[pa.Table, dict[int, str]]:
    """Clear the rejects that an auxiliary step made, so that its rows go on.

    `table` holds rows that no earlier step rejected. Returns the table and, by row number, what the
    step lost. Rejects of any other step stay.
    """
    if table["reject"].null_count == table.num_rows:
        return table, {}
    rejects = table["reject"].to_pylist()
    lost = {row: reject for row, reject in enumerate(rejects) if reject is not None}
    if not (isinstance(step, LLMStep) and step.auxiliary and lost):
        return table, {}
    place = table.column_names.index("reject")
    alive = pa.nulls(table.num_rows, REJECT)
    table = table.set_column(place, table.schema.field("reject"), alive)
    return table, {row: why(step, reject) for row, reject in lost.items()}


def why(step: LLMStep, reject: Mapping[str, Any]) -> str:
    """Describe a reject and name the key of the step or its engine to raise."""
    key = KEYS.get(reject["reason"], "again")
    value = getattr(step.engine if key.startswith("engine.") else step, key.split(".")[-1], None)
    now = "" if value is None else f" (now {value})"
    return f"{reject['reason']}: {reject['detail']} Raise {key} of {type(step).__name__}{now}."
