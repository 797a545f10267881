"""What a build's manifest says of its files, and whether they are what was built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from srrag.ids import file_sha256
from srrag.storage import mirror
from srrag.storage.atomic_write import read_json

_checked: set[tuple[str, int, int]] = set()


def manifest_files(folder: Path) -> dict[str, str]:
    """The files of a build with their hashes; raises ValueError if the manifest names none."""
    manifest = read_json(folder / "manifest.json")
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not files:
        named = mirror.shown(folder / "manifest.json")
        raise ValueError(f"{named} names no files; run the build again")
    return files


def check_files(folder: Path, wanted: Callable[[str], bool] | None = None) -> None:
    """Have a build's files here and check them against its manifest, once a process and file.

    `wanted` chooses files by name, all by default. Raises ValueError that names the file which is
    missing or not what was built.
    """
    if wanted is None:
        mirror.pull_build(folder)
    else:
        mirror.pull(folder, wanted, alone=False)
    for name, sha256 in manifest_files(folder).items():
        if wanted is not None and not wanted(name):
            continue
        path = folder / name
        if not path.exists():
            raise ValueError(f"{mirror.shown(path)} is missing; run the build again")
        state = path.stat()
        key = (str(path), state.st_mtime_ns, state.st_size)
        if key in _checked:
            continue
        if file_sha256(path) != sha256:
            raise ValueError(f"{path} is not what was built (sha256 differs); it is not loaded")
        _checked.add(key)
