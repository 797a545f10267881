"""Classify each file of a root, and find the files that nothing explains.

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

_OWN = {
    r"srrag\.json": "marker",
    r"forgotten(\.copy)?\.json": "list of what was forgotten",
    r"forgetting\.json": "note of a forgetting",
    r"\.lock(\.json)?": "lock",
    r"builds/[^/.][^/]*\.json": "pointer",
    r"stages/raw/[^/]+/part-[^/]+\.parquet": "raw part",
    r"stages/raw/[^/]+/part-[^/]+\.json": "raw receipt",
    rf"stages/({SOURCE}|{FOLDER}[^/]*)/[^/]+/part-[^/]+\.parquet": "part of questions",
    rf"stages/({SOURCE}|{FOLDER}[^/]*)/[^/]+/part-[^/]+\.json": "receipt of questions",
    r"stages/[^/.][^/]*/[^/]+/part-[^/]+\.parquet": "part",
    r"stages/[^/.][^/]*/[^/]+/part-[^/]+\.json": "receipt",
    r"stages/[^/]+/[^/]+/\.attempt-[^/]+\.json": "attempt note",
    r"stages/[^/.][^/]*/[^/.][^/]*/manifest\.json": "manifest",
    r"stages/[^/.][^/]*/[^/.][^/]*/.+": "file of a build",
    r"completions/part-[^/]+\.parquet": "completions",
    r"completions/faults-[^/]+\.parquet": "faults",
    r"completions/part-[^/]+\.json": "receipt of completions",
    r"completions/journal-[^/]+\.jsonl": "journal",
    r"completions/(lock-\d+\.json|\.lock-[^/]+)": "lock of completions",
    r"completions/\.?index-[^/]+/[^/]+": "index of completions",
    r"jobs/[^.].*/(betr|features|answerable|thresholds)\.json": "fitted file",
    r"jobs/[^.].*/model/.+": "trained model",
    r"jobs/[^.].*/(rows\.json|(questions|gold)\.parquet|(answers|judgements)/.+)": "results",
    r"jobs/[^.][^/]*(/.+)?": "output",
}
"""The kind of a file by its path below the root; the first match counts."""

_LOCK = re.compile(r"\.tantivy-[a-z]+\.lock")
"""The empty lock file that Tantivy leaves in an index that it has opened."""

_OTHERS = ("stages", "builds", "jobs")

_KINDS = [(re.compile(pattern), kind) for pattern, kind in _OWN.items()]


def kind_of(path: Path, root: Path) -> str | None:
    """Return the kind of a file by its name and place; None for a file that SR-RAG never writes.

    A file in the store of a job, such as a benchmark, has the kind that it has in that store.
    """
    below = path.relative_to(root)
    if below.parts[0] == "jobs":
        for depth in range(2, len(below.parts)):
            inner = root.joinpath(*below.parts[:depth])
            if (inner / "srrag.json").exists():
                return kind_of(path, inner)
    name = below.as_posix()
    kind = next((kind for pattern, kind in _KINDS if pattern.fullmatch(name)), None)
    if kind == "manifest":
        return "manifest of a build" if build_files(path.parent) else "manifest of a step"
    return kind


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
    loose = [path for path in (*stages.glob("*"), *stages.glob("*/*")) if path.is_file()]
    for folder in store.root.iterdir():
        if folder.name not in _OTHERS:
            loose += [folder] if folder.is_file() else _files(folder)
    yield from (path for path in sorted(loose) if kind_of(path, store.root) is None)


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
