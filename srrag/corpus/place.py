"""Resolve the location of a corpus: on disk, or packaged with a Python module."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Iterator
from pathlib import Path

from srrag.core.errors import UsageError

_PACKAGE = "pkg://"


def resolve(path: str) -> Path:
    """Return the real path of `path`, which may be "pkg://package/folder".

    Raises UsageError that names the path if nothing is there.
    """
    if path.startswith(_PACKAGE):
        package, _, rest = path.removeprefix(_PACKAGE).partition("/")
        try:
            found = Path(str(importlib.resources.files(package))) / rest
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: no package {package!r} to read from") from error
    else:
        found = Path(path)
    if not found.exists():
        raise UsageError(f"{path}: no such file or folder")
    return found.resolve()


def folder(path: str) -> Path:
    """Return the folder that `path` names; raises UsageError if it is not a folder."""
    found = resolve(path)
    if not found.is_dir():
        raise UsageError(f"{path}: not a folder")
    return found


def walk(root: Path) -> Iterator[Path]:
    """Yield the entries below a folder in sorted order, without hidden ones.

    It does not enter linked folders. For a link that leads out of the root it yields the link, so
    that the reader can refuse it by name.
    """
    for current, folders, files in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(current)
        links = [n for n in folders if (here / n).is_symlink() and not is_inside(here / n, root)]
        for name in sorted([*files, *links]):
            if not name.startswith("."):
                yield here / name


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path, links followed, lies within the root."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a loop of links
        return False


def relative_name(path: Path, root: Path) -> str:
    """The path below the root with "/" between parts, safe to store as UTF-8."""
    name = path.name if path == root else path.relative_to(root).as_posix()
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
