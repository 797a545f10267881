"""Find the files of a root that nothing explains.

A receipt explains its part, a part its receipt, and a manifest the files of its build; the name and
place of any other file explain it. An unexplained file comes from a killed run or from outside and
may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srrag.runner.shared_prefix_plan import FOLDER, SOURCE
from srrag.storage.atomic_write import read_object
from srrag.storage.manifest import DamagedError, check_part
from srrag.storage.store import Store

_KNOWN = re.compile(
    r"(srrag|forgotten(\.copy)?|forgetting)\.json|\.lock(\.json)?"
    r"|completions/((part|faults)-[^/]+\.parquet|part-[^/]+\.json|journal-[^/]+\.jsonl"
    r"|\.lock)"
    r"|organize/.+"
)
"""Files outside the folders of stages, builds and jobs, by their paths below the root."""

_LOCK = re.compile(r"\.tantivy-[a-z]+\.lock")
"""The empty lock file that Tantivy leaves in an index that it has opened."""

_OTHERS = ("stages", "builds", "jobs")


def unexplained(store: Store) -> Iterator[Path]:
    """Yield the files of a root that no pointer, manifest or receipt explains.

    Missing or changed files in a folder that a pointer names count as damage instead: `verify`
    reports it and a build repairs it.
    """
    named = {
        store.stage_dir(name, entry["fingerprint"])
        for build in pointers(store)
        for name, entry in build["stages"].items()
    }
    stages = store.root / "stages"
    for folder in sorted(path for path in stages.glob("*/*") if path.is_dir()):
        yield from (_strays if folder in named else _orphans)(folder)
    for path in _files(store.root / "builds"):
        if path.suffix != ".json" or path.name.startswith("."):
            yield path
    yield from sorted(path for path in (*stages.glob("*"), *stages.glob("*/*")) if path.is_file())
    for beside in sorted(store.root.iterdir()):
        if beside.name not in _OTHERS:
            files = [beside] if beside.is_file() else _files(beside)
            yield from (each for each in files if not _is_known(each, store.root))


def asked_parts(root: Path) -> Iterator[Path]:
    """Yield the parts that no pointer names: questions, answers, and the stores of jobs."""
    for name in (SOURCE, f"{FOLDER}*"):
        yield from sorted((root / "stages").glob(f"{name}/*/part-*.parquet"))
    yield from sorted((root / "jobs").glob("*/stages/*/*/part-*.parquet"))


def damaged_parts(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the damaged parts among `asked_parts`, each with the message of the error."""
    for path in asked_parts(root):
        try:
            check_part(path)
        except DamagedError as error:
            yield path, str(error)


def pointers(store: Store) -> Iterator[dict[str, Any]]:
    """The pointers of a root, one by one; raises ValueError that names a damaged one."""
    return map(store.read_pointer, store.builds())


def build_files(folder: Path) -> set[str]:
    """Return the files in the manifest of a build; empty if the folder holds no build."""
    files = read_object(folder / "manifest.json").get("files")
    return set(files) if isinstance(files, dict) else set()


def _is_known(path: Path, root: Path) -> bool:
    return _KNOWN.fullmatch(path.relative_to(root).as_posix()) is not None


def _strays(folder: Path) -> Iterator[Path]:
    """Yield the unexplained files of a folder that a pointer names."""
    built = build_files(folder)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if (built and name not in {*built, "manifest.json"} and not _LOCK.fullmatch(path.name)) or (
            not built and _is_half(path)
        ):
            yield path


def _orphans(folder: Path) -> Iterator[Path]:
    """Yield the unexplained files of a folder that no pointer names."""
    if folder.name.startswith("."):
        yield from _files(folder)
        return
    built = build_files(folder)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        is_part = re.fullmatch(r"part-[^/]+\.(parquet|json)|\.attempt-[^/]+\.json", name)
        whole = is_part and not built and not _is_half(path)
        is_ours = name in built or _LOCK.fullmatch(path.name)
        if not (whole or is_ours or (name == "manifest.json" and read_object(path))):
            yield path


def _is_half(path: Path) -> bool:
    """Whether a file is a part without receipt, a receipt without part, or unfinished."""
    if path.name.startswith(".attempt-") and path.suffix == ".json":
        return False
    if path.name.startswith("."):
        return True
    if path.name.startswith("part-") and path.suffix in (".parquet", ".json"):
        other = ".json" if path.suffix == ".parquet" else ".parquet"
        return not path.with_suffix(other).exists()
    return False


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.is_file())
