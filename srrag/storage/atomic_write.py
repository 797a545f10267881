"""One file, whole or not at all: how everything that is kept is written, and JSON read back."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.storage import mirror

_SEAL = "_sha256"
_END = "\n}\n"


def commit(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside its place, flush it to disk, and rename it into place.

    Of a root on an object store it is put there first: what stands here is never newer.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        mirror.put(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def commit_json(path: Path, value: Any, *, sealed: bool = False) -> None:
    """Commit a JSON file, indented for people; a `sealed` object ends with the hash of its text."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    if sealed:
        assert text.endswith(_END) and value, "an object that holds something"
        text = text.removesuffix(_END) + _sealed(text)

    def write(temporary: Path) -> None:
        temporary.write_text(text, "utf-8")

    commit(path, write)


def read_json(path: Path) -> Any:
    """Read a JSON file, where it lies; raises ValueError that names it when it is not JSON."""
    return parse_json(mirror.read(path), path)


def parse_json(text: bytes, path: Path) -> Any:
    """Parse the bytes of a JSON file; raises ValueError that names it.

    A sealed object is held against its hash, which is left out.
    """
    try:
        decoded = text.decode("utf-8")
        value = json.loads(decoded)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{mirror.shown(path)}: not valid JSON ({error})") from error
    if isinstance(value, dict) and value.pop(_SEAL, None) is not None:
        rest = decoded[: -len(_sealed(""))] + _END
        if decoded != rest.removesuffix(_END) + _sealed(rest):
            raise ValueError(f"{mirror.shown(path)} is not what was written (its sha256 differs)")
    return value


def _sealed(text: str) -> str:
    """The end of a sealed object whose text is this: the hash of it, as its last entry."""
    return f',\n "{_SEAL}": "{hashlib.sha256(text.encode("utf-8")).hexdigest()}"{_END}'


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write Parquet: binary columns plain (vectors do not compress), the rest by dictionary."""
    plain = [
        field.name
        for field in table.schema
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type)
    ]
    coded = [name for name in table.column_names if name not in plain]
    pq.write_table(
        table,
        path,
        compression={name: "NONE" if name in plain else "ZSTD" for name in table.column_names}
        if plain
        else "ZSTD",
        use_dictionary=coded,
        write_statistics=False,
    )
