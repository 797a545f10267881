"""How the graph's tables are written: ids are hashes, in which no code finds anything twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def coding(schema: pa.Schema, distinct: Collection[str]) -> dict[str, Any]:
    """Parquet's options: a dictionary for columns that repeat themselves, zstd for all but ids.

    `distinct` names the fields, also of structs, that hold a value a row or nearly so. Half of the
    time that writing takes goes into dictionaries of these and into zstd of ids otherwise.
    """
    columns = list(_columns(schema))
    return {
        "compression": {name: "NONE" if name.endswith("_id") else "ZSTD" for name in columns},
        "use_dictionary": [name for name in columns if name.split(".")[-1] not in distinct],
        "write_statistics": False,
    }


def narrow(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Whole numbers from 0 up, of the same order, in as few bytes as hold them.

    Those of 16 bits are sorted by radix, in an eighth of the time.
    """
    least = keys.min(initial=0)
    found: npt.NDArray[np.unsignedinteger[Any]] = (keys - least).astype(
        np.min_scalar_type(keys.max(initial=0) - least)
    )
    return found


def _columns(schema: pa.Schema) -> Iterator[str]:
    """The paths of all columns; a list of structs has one for each field."""
    for field in schema:
        if pa.types.is_list(field.type):
            for inner in field.type.value_type:
                yield f"{field.name}.list.element.{inner.name}"
        else:
            yield field.name
