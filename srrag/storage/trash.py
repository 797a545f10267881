"""Deletion as a transaction: a folder takes a name that says so before anything in it goes.

A name is there or gone at once, a folder's files go one by one: who is killed meanwhile leaves a
half of it. So no half ever stands under a name that counts, and what stands under TRASH is
finished by the next run that holds the root.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

TRASH = ".trash-"


def discard(folder: Path) -> None:
    """Remove a folder and all below it, if it is there; killed anywhere, its name is free."""
    trash = folder.with_name(f"{TRASH}{uuid.uuid4().hex}")
    try:
        folder.rename(trash)
    except FileNotFoundError:
        return
    shutil.rmtree(trash)


def swap(source: Path, target: Path) -> None:
    """Have a folder take another's place, which is removed then."""
    trash = target.with_name(f"{TRASH}{uuid.uuid4().hex}")
    had = target.exists()
    if had:
        target.rename(trash)
    source.rename(target)
    if had:
        shutil.rmtree(trash)


def finish(root: Path) -> int:
    """Remove what killed runs left to be removed below a root; returns how many folders."""
    left = list(trash_below(root))
    for folder in left:
        shutil.rmtree(folder)
    return len(left)


def trash_below(root: Path) -> Iterator[Path]:
    """The folders that are on their way out."""
    for pattern in ("", "stages", "stages/*", "jobs", "jobs/*/stages/*", "completions"):
        yield from root.glob(f"{pattern}/{TRASH}*".lstrip("/"))
