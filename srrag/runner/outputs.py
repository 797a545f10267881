"""Check the outputs of jobs that record a hash of what they wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srrag.core.ids import file_sha256
from srrag.runner.inventory import kind_of
from srrag.storage.atomic_write import read_json

_SEALED = {"fitted file": "*.json", "trained model": "manifest.json", "results": "rows.json"}
"""Kinds of outputs with a hash, and which of their files holds it: its own, or those of others."""


def damaged_outputs(root: Path) -> Iterator[str]:
    """Yield the damage of fitted files, trained models and results, one message a file.

    Only the command that wrote an output can make it again.
    """
    for path in sorted((root / "jobs").rglob("*.json")):
        pattern = _SEALED.get(kind_of(path, root) or "")
        if pattern is not None and path.match(pattern):
            try:
                stated = read_json(path)
            except (OSError, ValueError) as error:
                yield str(error)
            else:
                yield from _amiss(path.parent, stated)


def _amiss(folder: Path, stated: Any) -> Iterator[str]:
    """Yield the files that a list of hashes names and that are missing or differ."""
    files = stated.get("files") if isinstance(stated, dict) else None
    for name, sha256 in files.items() if isinstance(files, dict) else ():
        path = folder / name
        if not path.is_file():
            yield f"{path} is missing"
        elif file_sha256(path) != sha256:
            yield f"{path} is not what was written (sha256 differs)"
