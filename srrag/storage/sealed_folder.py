"""Seals a model's folder with a manifest of every file's sha256, and checks it before loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.core.ids import file_sha256
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import changed_files
from srrag.storage.mirror import join, pull_build
from srrag.storage.object_store import MANIFEST


def seal(folder: Path, facts: dict[str, Any] | None = None) -> str:
    """Write the manifest of a folder's files, with further `facts`; returns the revision."""
    hashes = {
        path.name: file_sha256(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != MANIFEST and not path.name.startswith(".")
    }
    join(folder)
    commit_json(folder / MANIFEST, {"files": hashes, **(facts or {})}, sealed=True)
    return sealed_revision(folder)


def sealed_revision(folder: Path) -> str:
    """The revision of a sealed folder: "sha256:" and 64 hex digits, the hash of its manifest.

    Raises ValueError for a folder without a valid manifest.
    """
    _hashes(folder)
    return f"sha256:{file_sha256(folder / MANIFEST)}"


def check_sealed(folder: Path, revision: str | None = None) -> str:
    """Hash every file of a sealed folder and return its revision.

    Raises ValueError that names a file which is missing or differs from the manifest, or the
    folder if it has another revision than the given one.
    """
    for problem in changed_files(folder, _hashes(folder)):
        raise ValueError(f"{problem}; {MANIFEST} names it")
    found = sealed_revision(folder)
    if revision is not None and found != revision:
        raise ValueError(f"{folder}: the model is {found[:19]}…, not {revision[:19]}…")
    return found


def _hashes(folder: Path) -> dict[str, str]:
    path = pull_build(folder) / MANIFEST
    if not path.is_file():
        raise ValueError(f"{folder}: no {MANIFEST}; it is not the folder of a trained model")
    stated = read_json(path)
    hashes = stated.get("files") if isinstance(stated, dict) else None
    if not isinstance(hashes, dict) or not hashes:
        raise ValueError(f"{path}: no 'files' with their sha256")
    if any("/" in name or name.startswith(".") for name in hashes):
        raise ValueError(f"{path}: a file outside the folder is named")
    return hashes
