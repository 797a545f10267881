"""The relations between benchmark steps: one row for each seed window, later with its question."""

from __future__ import annotations

import pyarrow as pa

from srrag.core.schema import NUGGETS, PICOT, relation

_STRING = pa.string()
_INT = pa.int32()
_WINDOW = (
    ("unit_id", _STRING),
    ("doc_id", _STRING),
    ("source_id", _STRING),
    ("grade", _STRING),
    ("title", _STRING),
    ("year", _INT),
)
_SPAN = (("char_start", _INT), ("char_end", _INT))


def extended(schema: pa.Schema, *fields: tuple[str, pa.DataType]) -> tuple[pa.Schema, pa.Schema]:
    """Return the schema with more columns, and a schema of the new ones; both end in `reject`."""
    added = relation(*fields)
    kept = [item for item in schema if item.name != "reject"]
    return pa.schema([*kept, *added]), added


def listed(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    """Return the type of a list of structs with these fields."""
    return pa.list_(pa.struct([pa.field(name, kind) for name, kind in fields]))


SEEDS = relation(
    ("query_id", _STRING),
    *_WINDOW,
    ("condition", _STRING),
    ("section", _STRING),
    *_SPAN,
    ("window", _STRING),
    ("asked", pa.list_(_STRING)),
)
"""Sampled windows; the span counts characters of the cleaned document.

`asked` are the questions that were written before of other windows of the document.
"""

QUESTIONED, QUESTION = extended(
    SEEDS,
    ("text", _STRING),
    ("conclusion", _STRING),
    ("picot", PICOT),
    ("certainty", _STRING),
    ("certainty_reason", _STRING),
)
"""With the question, and the verbatim stretch of the window that answers it."""

POOL = listed(*_WINDOW, ("section", _STRING), *_SPAN, ("text", _STRING))
POOLED, _ = extended(QUESTIONED, ("track", _STRING), ("seed_rank", _INT), ("pool", POOL))
"""With the candidates, best first. `seed_rank` counts from 1 in the baseline; 0: not found."""

GOLD = listed(
    *_WINDOW,
    ("support", _STRING),
    ("reason", _STRING),
    *_SPAN,
    ("quote", _STRING),
    ("text", _STRING),
)
SUPPORTED, SUPPORT = extended(
    QUESTIONED,
    ("track", _STRING),
    ("seed_rank", _INT),
    ("gold", GOLD),
    ("weak", _INT),
    ("unrelated", _INT),
    ("not_graded", _INT),
    ("whole_windows", _INT),
)
"""With the gold windows, by grade: span and quote are what supports, `text` is the window.

`weak` and `unrelated` count the candidates graded so, `not_graded` those whose grade was lost,
`whole_windows` the gold for which no verbatim quote was given: there it is the window.
"""

STATEMENTS = listed(("text", _STRING), ("unit_ids", pa.list_(_STRING)))
REFERENCED, REFERENCE = extended(
    SUPPORTED,
    ("exact", STATEMENTS),
    ("ideal", STATEMENTS),
    ("dropped_statements", _INT),
)
"""With the statements of both answers, each with the gold windows that it rests on."""

NUGGETED, NUGGET_COLUMN = extended(REFERENCED, ("nuggets", NUGGETS))
"""With the nuggets of the exact answer."""
