"""Atomic writes: a file appears whole or not at all. Also reads JSON back, with its hash."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.storage import mirror


def link_or_copy(path: Path, to: Path) -> None:
    """Link a file that never changes into a second folder; copy it if links are unsupported."""
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)


_SEAL = "_sha256"
_END = "\n}\n"
_SHORT = re.compile(r"\d+ requested and \d+ written|No space left on device|Disk quota exceeded")
"""What NumPy and Arrow say of a full disk, without its errno."""


def commit(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under a temporary name, flush it to disk, and rename it into place.

    For a root on an object store it uploads the file first, so the local copy is never newer. A
    file in a folder that its owner alone may read is as private, and so is a folder made for it.
    """
    _made(path.parent)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with naming_a_full_disk(path):
            write(temporary)
            if _private(path.parent):
                temporary.chmod(0o600)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        mirror.put(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming_a_full_disk(path: Path) -> Iterator[None]:
    """Name the file, or a folder's newest, and its disk where one is full; libraries do not."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or _SHORT.search(str(error))
        if not full:
            raise
        here = next(each for each in (path, *path.parents) if each.exists())
        found = [each for each in here.rglob("*") if each.is_file()] if here == path else []
        file = max(found, key=lambda each: each.stat().st_mtime_ns, default=path)
        disk = next(each for each in (here, *here.parents) if os.path.ismount(each))
        raise OSError(errno.ENOSPC, f"no space left on the disk at {disk}", str(file)) from error


def keep_private(folder: Path) -> None:
    """Make a folder that its owner alone may read, or make it and its files so where they are ours.

    What is committed into it later is private by itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if _private(folder):
        return
    with suppress(PermissionError):
        folder.chmod(0o700)
        for path in folder.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)


def _made(folder: Path) -> None:
    if not folder.is_dir():
        _made(folder.parent)
        folder.mkdir(0o700 if _private(folder.parent) else 0o777, exist_ok=True)


def _private(folder: Path) -> bool:
    return not folder.stat().st_mode & 0o077


def commit_json(path: Path, value: Any, *, sealed: bool = False) -> None:
    """Commit an indented JSON file; a `sealed` object ends with the hash of its text."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    if sealed:
        assert text.endswith(_END) and value, "an object that holds something"
        text = text.removesuffix(_END) + _sealed(text)

    def write(temporary: Path) -> None:
        temporary.write_text(text, "utf-8")

    commit(path, write)


def read_json(path: Path) -> Any:
    """Read a JSON file, from the object store if it is there; raises as `parse_json`."""
    return parse_json(mirror.read(path), path)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one if it is missing or damaged, which another check reports."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_json(text: bytes, path: Path) -> Any:
    """Parse the bytes of a JSON file; raises ValueError that names a damaged file.

    It verifies a sealed object against its hash, and removes the hash from the result.
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
    """The end of a sealed object: a last entry with the hash of its text."""
    return f',\n "{_SEAL}": "{hashlib.sha256(text.encode("utf-8")).hexdigest()}"{_END}'


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write Parquet; binary columns (vectors) stay plain, others get a dictionary and ZSTD."""
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
