"""Parquet settings of the graph's tables; ids are hashes, so they do not compress."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa


def coding(schema: pa.Schema, distinct: Collection[str]) -> dict[str, Any]:
    """Return Parquet options: dictionaries for columns with repeated values, zstd except for ids.

    `distinct` names the fields, nested ones too, with nearly one distinct value a row. Dictionaries
    for these and zstd for ids would take half of the writing time.
    """
    columns = list(_columns(schema))
    return {
        "compression": {name: "NONE" if name.endswith("_id") else "ZSTD" for name in columns},
        "use_dictionary": [name for name in columns if name.split(".")[-1] not in distinct],
        "write_statistics": False,
    }


def _columns(schema: pa.Schema) -> Iterator[str]:
    """Yield the paths of all columns; a list of structs has one for each field."""
    for field in schema:
        if pa.types.is_list(field.type):
            for inner in field.type.value_type:
                yield f"{field.name}.list.element.{inner.name}"
        else:
            yield field.name
