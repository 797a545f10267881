"""Transactional deletion: a folder is renamed to trash before its files are deleted.

A rename is atomic, but a folder's files are deleted one by one, and a kill leaves some of them. So
a half-deleted folder only ever has a trash name, and the next run that holds the root's lock
deletes the rest of it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

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
