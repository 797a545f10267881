"""How the graph's tables are written: ids are hashes, in which no code finds anything twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa


def coding(schema: pa.Schema, ids: Collection[str]) -> dict[str, Any]:
    """Parquet's options: columns of distinct ids as they are, all others by dictionary and zstd.

    Half of the time that writing takes goes into such columns otherwise.
    """
    columns = list(_columns(schema))
    return {
        "compression": {name: "NONE" if name in ids else "ZSTD" for name in columns},
        "use_dictionary": [name for name in columns if name not in ids],
    }


def _columns(schema: pa.Schema) -> Iterator[str]:
    """The paths of all columns; a list of structs has one for each field."""
    for field in schema:
        if pa.types.is_list(field.type):
            for inner in field.type.value_type:
                yield f"{field.name}.list.element.{inner.name}"
        else:
            yield field.name
