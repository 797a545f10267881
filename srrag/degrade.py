"""What helps an answer may fail: the question goes on without it, and its trace says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from srrag.schema import REJECT
from srrag.step import LLMStep, Step

KEYS = {
    "truncated": "max_tokens",
    "whitespace": "max_tokens",
    "too_long": "engine.max_model_len",
    "timeout": "engine.timeout_s",
}
"""The setting that most likely mends a fault; for others a further try may (`again`)."""


def spare(step: Step, table: pa.Table) -> tuple[pa.Table, dict[int, str]]:
    """The rows of a step, none of which was rejected before, alive where it is auxiliary.

    Returns the table, and by row what the step lost. What another step rejects stays rejected.
    """
    rejects = table["reject"].to_pylist()
    lost = {row: reject for row, reject in enumerate(rejects) if reject is not None}
    if not (isinstance(step, LLMStep) and step.auxiliary and lost):
        return table, {}
    place = table.column_names.index("reject")
    alive = pa.nulls(table.num_rows, REJECT)
    table = table.set_column(place, table.schema.field("reject"), alive)
    return table, {row: why(step, reject) for row, reject in lost.items()}


def why(step: LLMStep, reject: Mapping[str, Any]) -> str:
    """What went wrong, and the key of the step or its engine that may mend it."""
    key = KEYS.get(reject["reason"], "again")
    value = getattr(step.engine if key.startswith("engine.") else step, key.split(".")[-1], None)
    now = "" if value is None else f" (now {value})"
    return f"{reject['reason']}: {reject['detail']} Raise {key} of {type(step).__name__}{now}."
