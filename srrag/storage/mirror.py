"""A root on an object store (s3://, gs://, abfs://): a folder here that stands for it.

Indexes are memory-mapped and libraries want files, so each node works in a folder of its own and
this module carries files between it and the store through `pyarrow.fs`. The folder's name is the
address itself, so that a path tells where it belongs, in any process on any node; on the path of an
ordinary folder every function here does nothing.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa

from srrag.storage.object_store import MANIFEST, ObjectStore, Wanted, store_of
from srrag.storage.trash import discard, swap

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")
SETTINGS = {"region", "endpoint_override", "scheme"}
"""What an address may set: whatever else there is could be a key."""

CACHE = "SRRAG_CACHE"
"""Names the folder that holds the folders of roots: the same path on every node."""

_MARK = quote("://", safe="")
_STANDS_FOR = re.compile(rf"/[^\s'\"]*/(\w+{_MARK}[^\s/'\"]+)")
_MAX_NAME = 255


def located(address: str | Path) -> Path:
    """The folder of an address: the path itself, or the folder that stands for an object store.

    Raises ValueError for an address of an unknown kind, or one that holds credentials.
    """
    text = str(address)
    if "://" not in text:
        return Path(text).expanduser().resolve()
    parts = urlsplit(text)
    is_azure = parts.scheme in ("abfs", "abfss")  # there `container@account` is no key
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
    """A path as its user knows it: the address, where it is of an object store."""
    store = store_at(path)
    return str(path) if store is None else store.shown(path)


def worded(message: str) -> str:
    """A message for people: of a folder that stands for an address it names the address."""
    return _STANDS_FOR.sub(lambda found: unquote(found[1]), message)


def store_at(path: Path) -> ObjectStore | None:
    """What carries the files of a path; None where it is of an ordinary folder."""
    if _MARK not in str(path):
        return None
    folder = next((each for each in (path, *path.parents) if _MARK in each.name), None)
    return None if folder is None else store_of(folder)


def check_bucket(folder: Path) -> None:
    """Raise ValueError if the store of a folder has no such bucket."""
    if store := store_at(folder):
        store.check_bucket()


def put(path: Path, source: Path | None = None) -> None:
    """Put a file on the store, from `source` if it is not yet in its place here."""
    if store := store_at(path):
        store.put(path, source or path)


def fetch(path: Path) -> Path:
    """Have a file here as it is on the store; raises FileNotFoundError if it is not there."""
    if store := store_at(path):
        store.fetch(path)
    return path


def read(path: Path) -> bytes:
    """The content of a file as it is on the store, which is not kept here."""
    store = store_at(path)
    return path.read_bytes() if store is None else store.read(path)


def bring(path: Path) -> Path:
    """Have a file here as it is on the store, if it is there."""
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
    """Have the files of a folder here as they are on the store, `alone`: and no others.

    Returns the names of all that are in the folder itself, wanted or not.
    """
    if store := store_at(folder):
        return store.pull(folder, wanted, recursive=recursive, alone=alone)
    return listing(folder)


def pull_build(folder: Path) -> Path:
    """Have the files of a folder here, on an ordinary path without a look at them."""
    if store_at(folder):
        pull(folder)
    return folder


def remove(path: Path) -> None:
    """Remove a file, here and on the store, if it is there."""
    if store := store_at(path):
        store.remove(path)
    path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder and all below it, here and on the store; a manifest goes first."""
    if store := store_at(folder):
        store.remove_folder(folder)
    with suppress(OSError):  # it has gone to its name at least, and the next run goes on
        discard(folder)


def move_folder(source: Path, target: Path) -> None:
    """Have a folder take another's place; on an object store its manifest comes last."""
    if store := store_at(target):
        store.copy_folder(source, target)
    swap(source, target)


def join(folder: Path, since: float = 0.0) -> None:
    """Have a folder's files both here and on the store: several nodes may have written it.

    Nothing older here than `since` is put: it may be gone there, or another's by now.
    """
    if store := store_at(folder):
        store.join(folder, since)


def match(folder: Path, names: set[str]) -> None:
    """Have gone from the store which of these files are not here: others may put more meanwhile.

    Manifests go last: by them a build that is to go is found again, if this is killed.
    """
    if store := store_at(folder):
        for name in sorted(names - files_here(folder), key=lambda name: name.endswith(MANIFEST)):
            store.remove(folder / name)


def files_here(folder: Path) -> set[str]:
    """The files below a folder of this machine, by their paths relative to it."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in found}


def found(folder: Path, name: str, depth: int) -> list[Path]:
    """The files of a name so many folders below one, sorted."""
    if store := store_at(folder):
        return store.found(folder, name, depth)
    return sorted(folder.glob("*/" * depth + name))


def files(folder: Path) -> set[str]:
    """All files below a folder, by their paths relative to it."""
    if store := store_at(folder):
        return set(store.listed(folder, recursive=True))
    return files_here(folder)


def listing(folder: Path) -> set[str]:
    """The names in a folder; none where there is no such folder."""
    if store := store_at(folder):
        return {name.partition("/")[0] for name in store.listed(folder, recursive=True)}
    try:
        return set(os.listdir(folder))  # noqa: PTH208 (names alone, for many parts)
    except (FileNotFoundError, NotADirectoryError):
        return set()


def exists(path: Path) -> bool:
    """Whether a file is there."""
    store = store_at(path)
    return path.exists() if store is None else store.has(path)


def sizes(folder: Path) -> dict[str, int]:
    """The files in a folder, and how many bytes each has; none where there is no such folder."""
    if store := store_at(folder):
        return {name: info.size for name, info in store.listed(folder, recursive=False).items()}
    try:
        with os.scandir(folder) as entries:
            return {each.name: each.stat().st_size for each in entries if each.is_file()}
    except FileNotFoundError:
        return {}


def opened(path: Path) -> pa.NativeFile:
    """A file to read columns of: memory-mapped if it is here, else read where it lies."""
    store = store_at(path)
    if store is None or store.is_current(path):
        return pa.memory_map(str(path))
    return store.fs.open_input_file(store.key(path))
