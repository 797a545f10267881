"""Parquet settings of the graph's tables; ids are hashes, so they do not compress."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
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


def narrow(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Convert non-negative integers to the smallest type that keeps their order.

    NumPy sorts 16-bit integers by radix, in an eighth of the time.
    """
    least = keys.min(initial=0)
    found: npt.NDArray[np.unsignedinteger[Any]] = (keys - least).astype(
        np.min_scalar_type(keys.max(initial=0) - least)
    )
    return found


def _columns(schema: pa.Schema) -> Iterator[str]:
    """Yield the paths of all columns; a list of structs has one for each field."""
    for field in schema:
        if pa.types.is_list(field.type):
            for inner in field.type.value_type:
                yield f"{field.name}.list.element.{inner.name}"
        else:
            yield field.name
