"""Mirrors a root on an object store (s3://, gs://, abfs://) in a local folder.

Indexes are memory-mapped and libraries need files, so each node works in a local mirror, and this
module copies files between mirror and store through `pyarrow.fs`. The mirror's folder name encodes
the address, so every process on every node can tell from a path where it belongs. For the path of
an ordinary folder, these functions work on the local files alone.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa

from srrag.storage.object_store import MANIFEST, ObjectStore, Wanted, store_of

TRASH = ".trash-"


def discard(folder: Path) -> None:
    """Delete a folder recursively, if it exists; a kill at any point leaves its name free."""
    trash = folder.with_name(f"{TRASH}{uuid.uuid4().hex}")
    try:
        folder.rename(trash)
    except FileNotFoundError:
        return
    shutil.rmtree(trash)


def swap(source: Path, target: Path) -> None:
    """Rename a folder to the target's name, and delete the former target."""
    trash = target.with_name(f"{TRASH}{uuid.uuid4().hex}")
    had = target.exists()
    if had:
        target.rename(trash)
    source.rename(target)
    if had:
        shutil.rmtree(trash)


def finish(root: Path) -> int:
    """Delete the trash that killed runs left below a root; returns the number of folders."""
    left = list(trash_below(root))
    for folder in left:
        shutil.rmtree(folder)
    return len(left)


def trash_below(root: Path) -> Iterator[Path]:
    """Yield the trash folders below a root."""
    for pattern in ("", "stages", "stages/*", "jobs", "jobs/*/stages/*", "completions"):
        yield from root.glob(f"{pattern}/{TRASH}*".lstrip("/"))


SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")
SETTINGS = {"region", "endpoint_override", "scheme"}
"""Query parameters allowed in an address; any other one could be a key."""

CACHE = "SRRAG_CACHE"
"""Environment variable for the folder that holds all mirrors; the same path on every node."""

_MARK = quote("://", safe="")
_STANDS_FOR = re.compile(rf"/[^\s'\"]*/(\w+{_MARK}[^\s/'\"]+)")
_MAX_NAME = 255


def located(address: str | Path) -> Path:
    """The local folder of an address: the path itself, or the mirror of an object store.

    Raises ValueError for an address of an unknown kind, or one that contains credentials.
    """
    text = str(address)
    if "://" not in text:
        return Path(text).expanduser().resolve()
    parts = urlsplit(text)
    is_azure = parts.scheme in ("abfs", "abfss")  # Azure's `container@account` is no credential
    set_there = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.password or ("@" in parts.netloc and not is_azure) or set_there - SETTINGS:
        raise ValueError(f"{parts.scheme}://…: an address holds no keys; they are read from the "
                         f"environment; it may set {', '.join(sorted(SETTINGS))}")  # fmt: skip
    if parts.scheme not in SCHEMES or not parts.netloc:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"{text}: not a folder, nor an address that begins with {known}")
    name = quote(text.rstrip("/"), safe="")
    if len(name) > _MAX_NAME:
        raise ValueError(f"{text}: the address is too long")
    cache = os.environ.get(CACHE) or Path.home() / ".cache" / "srrag"
    return Path(cache).expanduser().resolve() / name


def shown(path: Path) -> str:
    """A path as users know it: inside a mirror, the address on the object store."""
    store = store_at(path)
    return str(path) if store is None else store.shown(path)


def worded(message: str) -> str:
    """Replace the paths of mirrors in a message by their addresses."""
    return _STANDS_FOR.sub(lambda found: unquote(found[1]), message)


def store_at(path: Path) -> ObjectStore | None:
    """The object store of a path inside a mirror; None for the path of an ordinary folder."""
    if _MARK not in str(path):
        return None
    folder = next((each for each in (path, *path.parents) if _MARK in each.name), None)
    return None if folder is None else store_of(folder)


def check_bucket(folder: Path) -> None:
    """Raise ValueError if the bucket of a mirror does not exist."""
    if store := store_at(folder):
        store.check_bucket()


def put(path: Path, source: Path | None = None) -> None:
    """Upload a file, from `source` if it is not yet in its place; raises OSError."""
    if store := store_at(path):
        store.put(path, source or path)


def fetch(path: Path) -> Path:
    """Download the current version of a file; raises FileNotFoundError if the store lacks it."""
    if store := store_at(path):
        store.fetch(path)
    return path


def read(path: Path) -> bytes:
    """Read a file's current content, without keeping a local copy; raises FileNotFoundError."""
    store = store_at(path)
    return path.read_bytes() if store is None else store.read(path)


def bring(path: Path) -> Path:
    """Download the current version of a file, if the store has it."""
    with suppress(FileNotFoundError):
        fetch(path)
    return path


def pull(
    folder: Path,
    wanted: Wanted = lambda name: True,
    *,
    recursive: bool = True,
    alone: bool = True,
) -> set[str]:
    """Download the wanted files of a folder; with `alone`, delete local ones that the store lacks.

    Returns the names of all files directly in the folder, wanted or not.
    """
    if store := store_at(folder):
        return store.pull(folder, wanted, recursive=recursive, alone=alone)
    return listing(folder)


def pull_build(folder: Path) -> Path:
    """Download the files of a folder; do nothing for an ordinary folder."""
    if store_at(folder):
        pull(folder)
    return folder


def remove(path: Path) -> None:
    """Remove a file, both locally and on the store, if it exists."""
    if store := store_at(path):
        store.remove(path)
    path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder recursively, on the store (its manifest first) and locally."""
    if store := store_at(folder):
        store.remove_folder(folder)
    with suppress(OSError):  # at least it was renamed to trash, which the next run removes
        discard(folder)


def move_folder(source: Path, target: Path) -> None:
    """Replace the target folder by the source; an object store gets the manifest last."""
    if store := store_at(target):
        store.copy_folder(source, target)
    swap(source, target)


def join(folder: Path, since: float = 0.0) -> None:
    """Synchronise a folder that several nodes write, so that mirror and store have all files.

    It uploads no file older than `since`, which another node may have removed or replaced.
    """
    if store := store_at(folder):
        store.join(folder, since)


def match(folder: Path, names: set[str]) -> None:
    """Remove those of the named files from the store that no longer exist locally.

    It leaves unnamed files alone, which others may be adding. Manifests go last, so that a killed
    deletion can find the build again.
    """
    if store := store_at(folder):
        for name in sorted(names - files_here(folder), key=lambda name: name.endswith(MANIFEST)):
            store.remove(folder / name)


def files_here(folder: Path) -> set[str]:
    """The local files below a folder, as relative paths."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in found}


def found(folder: Path, name: str, depth: int) -> list[Path]:
    """The files with this name exactly `depth` levels below a folder, sorted."""
    if store := store_at(folder):
        return store.found(folder, name, depth)
    return sorted(folder.glob("*/" * depth + name))


def files(folder: Path) -> set[str]:
    """All files below a folder on the store (or locally), as relative paths."""
    if store := store_at(folder):
        return set(store.listed(folder, recursive=True))
    return files_here(folder)


def listing(folder: Path) -> set[str]:
    """The names in a folder; an empty set if it does not exist."""
    if store := store_at(folder):
        return {name.partition("/")[0] for name in store.listed(folder, recursive=True)}
    try:
        return set(os.listdir(folder))  # noqa: PTH208 (names alone, for many parts)
    except (FileNotFoundError, NotADirectoryError):
        return set()


def exists(path: Path) -> bool:
    """Whether a file exists, on the store for a path inside a mirror."""
    store = store_at(path)
    return path.exists() if store is None else store.has(path)


def sizes(folder: Path) -> dict[str, int]:
    """The size in bytes of each file in a folder; empty if the folder does not exist."""
    if store := store_at(folder):
        return {name: info.size for name, info in store.listed(folder, recursive=False).items()}
    try:
        with os.scandir(folder) as entries:
            return {each.name: each.stat().st_size for each in entries if each.is_file()}
    except FileNotFoundError:
        return {}


def opened(path: Path) -> pa.NativeFile:
    """Open a file to read columns: memory-mapped if a local copy is current, else remote."""
    store = store_at(path)
    if store is None or store.is_current(path):
        return pa.memory_map(str(path))
    return store.fs.open_input_file(store.key(path))
