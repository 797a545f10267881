"""Small relations made by hand, for the tests of what is built on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from srrag.core.schema import DOCUMENTS, UNITS, VECTORS, empty_value
from srrag.core.spec import content_id
from srrag.storage.atomic_write import write_parquet

REFUSED = {"stage": "test", "reason": "refused", "detail": ""}


def uid(number: int) -> str:
    """An id whose order is that of its number."""
    return f"{number:016x}" + "0" * 16


def hashed(name: object) -> str:
    """An id as the package makes them."""
    return content_id(str(name))


def row(schema: pa.Schema, **values: object) -> dict[str, object]:
    """A row of a relation with these values, the other columns empty."""
    blank = {field.name: empty_value(field.type) for field in schema}
    return {**blank, "reject": None, **values}


def write(rows: Sequence[dict[str, object]], schema: pa.Schema, path: Path) -> Path:
    write_parquet(pa.Table.from_pylist(list(rows), schema=schema), path)
    return path


def windows(texts: dict[str, str], path: Path) -> Path:
    """A part of windows: texts by unit id."""
    return write([row(UNITS, unit_id=key, text=text) for key, text in texts.items()], UNITS, path)


def documents(rows: Sequence[dict[str, object]], path: Path) -> Path:
    return write([row(DOCUMENTS, **values) for values in rows], DOCUMENTS, path)


def vectors(
    ids: Sequence[str],
    matrix: np.ndarray,
    path: Path,
    tokens: Sequence[np.ndarray] | None = None,
    refused: Sequence[str] = (),
) -> Path:
    """A part of vectors; `tokens` holds int8 values that all have the scale 1/127."""
    tokens = tokens or [np.zeros((0, 1), np.int8)] * len(ids)
    rows = [
        row(
            VECTORS,
            unit_id=unit_id,
            vector=vector.astype(np.float32).tobytes(),
            tokens=values.astype(np.int8).tobytes(),
            token_scales=np.full(len(values), 1 / 127, np.float16).tobytes(),
            reject=REFUSED if unit_id in refused else None,
        )
        for unit_id, vector, values in zip(ids, matrix, tokens, strict=True)
    ]
    return write(rows, VECTORS, path)
