"""Checks a build's files against their manifest, and parts against their receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from srrag.core.errors import SrragError
from srrag.core.ids import file_sha256
from srrag.storage import mirror
from srrag.storage.atomic_write import read_json

CURE = "`srrag build … repair=true` mends it"

STAMPED_BYTES = 64_000_000
"""A larger file is hashed when it is written and by `verify`; opening looks at size and time."""

_checked: set[tuple[str, int, int]] = set()


class DamagedError(SrragError, ValueError):
    """A file is damaged; the message names the file and the command that repairs it."""


def remember(path: Path) -> None:
    """Mark a file that this process has just written and hashed as checked."""
    _checked.add(_state(path))


def check_part(path: Path) -> None:
    """Check a part against the receipt beside it, once per process and file.

    Raises DamagedError if the part is missing or its hash differs. Skips a part without receipt,
    and one without a local copy, which the object store checks itself.
    """
    receipt = path.with_suffix(".json")
    try:
        if not receipt.exists() or (key := _state(path)) in _checked:
            return
    except FileNotFoundError:
        if mirror.store_at(path):
            return
        raise DamagedError(f"{mirror.shown(path)} is missing; {CURE}") from None
    try:
        told = read_json(receipt)["sha256"]
    except (ValueError, KeyError, TypeError):
        raise DamagedError(f"{mirror.shown(receipt)}: not a receipt; {CURE}") from None
    if file_sha256(path) != told:
        shown = mirror.shown(path)
        raise DamagedError(f"{shown} is not what was written (sha256 differs); {CURE}")
    _checked.add(key)


def _state(path: Path) -> tuple[str, int, int]:
    state = path.stat()
    return str(path), state.st_mtime_ns, state.st_size


def manifest_files(folder: Path) -> dict[str, str]:
    """A build's files and their sha256, from its manifest; raises DamagedError for a bad one."""
    named = mirror.shown(folder / "manifest.json")
    try:
        manifest = read_json(folder / "manifest.json")
    except ValueError as error:
        raise DamagedError(f"{error}; {CURE}") from error
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not files:
        raise DamagedError(f"{named} names no files; run the build again, with repair=true")
    return files


def changed_files(folder: Path, files: Mapping[str, str]) -> Iterator[str]:
    """Say which files of a folder are missing or differ from their sha256, one message a file."""
    for name, sha256 in files.items():
        path = folder / name
        if not path.is_file():
            yield f"{path} is missing"
        elif file_sha256(path) != sha256:
            yield f"{path} is not what was written (sha256 differs)"


def stamps(folder: Path, names: Iterable[str]) -> dict[str, list[int]]:
    """The size and the time of change (ns) of a build's large files, and of links, by name.

    A link shares its bytes with a part or a version before, and all links can be a whole corpus.
    """
    states = {name: (folder / name).stat() for name in names}
    return {
        name: [state.st_size, state.st_mtime_ns]
        for name, state in states.items()
        if state.st_size > STAMPED_BYTES or state.st_nlink > 1
    }


def check_files(
    folder: Path, wanted: Callable[[str], bool] | None = None, *, read: bool = False
) -> None:
    """Download a build's files and check them against its manifest, once per process and file.

    A large file whose size and time are those that the build noted counts as checked, unless `read`
    asks for all. `wanted` selects files by name, by default all. Raises ValueError that names a
    missing or changed file.
    """
    named = wanted or (lambda name: True)
    mirror.pull(folder, named, alone=wanted is None)
    files = manifest_files(folder)
    noted = {} if read else read_json(folder / "manifest.json").get("stamps", {})
    for name, sha256 in files.items():
        if not named(name):
            continue
        path = folder / name
        if not path.exists():
            raise ValueError(f"{mirror.shown(path)} is missing; run the build again")
        key = _state(path)
        if key in _checked or [key[2], key[1]] == noted.get(name):
            continue
        if file_sha256(path) != sha256:
            raise ValueError(f"{path} is not what was built (sha256 differs); it is not loaded")
        _checked.add(key)
