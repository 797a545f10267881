"""What each file of a root is, and which of them nothing explains.

A part is explained by its receipt, a receipt by its part, a file of a build by the manifest beside
it, a table of rejects by its pointer; everything else by its name and place alone. A file that
nothing explains is what a killed run or another hand left: it may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srrag.runner.shared_prefix_plan import FOLDER, SOURCE
from srrag.storage.atomic_write import read_json
from srrag.storage.manifest import DamagedError, check_part
from srrag.storage.store import Store

_OWN = {
    r"srrag\.json": "marker",
    r"forgotten(\.copy)?\.json": "list of what was forgotten",
    r"forgetting\.json": "note of a forgetting",
    r"\.lock(\.json)?": "lock",
    r"builds/[^/.][^/]*\.rejects\.parquet": "rejects",
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
    r"organize/.+": "file of organize",
    r"jobs/[^.][^/]*(/.+)?": "output",
}
"""The kind of a file by its path below the root; the first that fits counts."""

_REJECTS = ".rejects.parquet"
_LOCK = re.compile(r"\.tantivy-[a-z]+\.lock")
"""What Tantivy leaves in an index that it has opened: an empty file."""

_OTHERS = ("stages", "builds", "jobs")

_KINDS = [(re.compile(pattern), kind) for pattern, kind in _OWN.items()]


def kind_of(path: Path, root: Path) -> str | None:
    """The kind of a file by its name and place; None where no file of ours has such a one.

    Of what a job keeps in a store of its own, as a benchmark does, it is the kind there.
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
    """The files of a root that no pointer, manifest or receipt explains.

    Of a folder that a pointer names, nothing is: what is amiss there is damage, which `verify`
    names and a build mends.
    """
    named = {
        store.stage_dir(name, entry["fingerprint"])
        for build in pointers(store)
        for name, entry in build["stages"].items()
    }
    stages = store.root / "stages"
    for folder in sorted(path for path in stages.glob("*/*") if path.is_dir()):
        yield from (_strays if folder in named else _orphans)(folder)
    yield from (path for path in _files(store.root / "builds") if not _is_of_pointer(path))
    beside = (path for path in store.root.iterdir() if path.name not in _OTHERS)
    loose = [*stages.glob("*"), *stages.glob("*/*"), *beside]
    for path in sorted({*(path for path in loose if path.is_file()), *_below(store.root)}):
        if kind_of(path, store.root) is None:
            yield path


def asked_parts(root: Path) -> Iterator[Path]:
    """The parts that no pointer names: of questions and their answers, and of jobs' own stores."""
    for name in (SOURCE, f"{FOLDER}*"):
        yield from sorted((root / "stages").glob(f"{name}/*/part-*.parquet"))
    yield from sorted((root / "jobs").glob("*/stages/*/*/part-*.parquet"))


def damaged_parts(root: Path) -> Iterator[tuple[Path, str]]:
    """Which of those parts are not what was written, and how that is said."""
    for path in asked_parts(root):
        try:
            check_part(path)
        except DamagedError as error:
            yield path, str(error)


def pointers(store: Store) -> Iterator[dict[str, Any]]:
    """The pointers of a root; raises ValueError that names one which is damaged."""
    for path in sorted((store.root / "builds").glob("[!.]*.json")):
        yield store.read_pointer(path.stem)


def build_files(folder: Path) -> set[str]:
    """The files that the manifest in a folder names; none where there is no build's."""
    try:
        manifest = read_json(folder / "manifest.json")
    except (OSError, ValueError):
        return set()
    files = manifest.get("files") if isinstance(manifest, dict) else None
    return set(files) if isinstance(files, dict) else set()


def _below(root: Path) -> Iterator[Path]:
    """The files of the folders that hold no stage, no pointer and no output of a job."""
    for folder in root.iterdir():
        if folder.is_dir() and folder.name not in _OTHERS:
            yield from _files(folder)


def _is_of_pointer(path: Path) -> bool:
    """Whether a file is a pointer, or the rejects of one that stands."""
    if path.name.startswith("."):
        return False
    if path.name.endswith(_REJECTS):
        return path.with_name(path.name.removesuffix(_REJECTS) + ".json").exists()
    return path.suffix == ".json"


def _strays(folder: Path) -> Iterator[Path]:
    """The files of a folder that a pointer names, but nothing in it."""
    built = build_files(folder)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if (built and name not in {*built, "manifest.json"} and not _LOCK.fullmatch(path.name)) or (
            not built and _is_half(path)
        ):
            yield path


def _orphans(folder: Path) -> Iterator[Path]:
    """The files of a folder that no pointer names and nothing in it explains."""
    if folder.name.startswith("."):
        yield from _files(folder)
        return
    built = build_files(folder)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        is_part = re.fullmatch(r"part-[^/]+\.(parquet|json)|\.attempt-[^/]+\.json", name)
        whole = is_part and not built and not _is_half(path)
        is_ours = name in built or _LOCK.fullmatch(path.name)
        if not (whole or is_ours or (name == "manifest.json" and _is_manifest(path))):
            yield path


def _is_half(path: Path) -> bool:
    """Whether a part lacks its receipt or a receipt its part, or a file was never finished."""
    if path.name.startswith(".attempt-") and path.suffix == ".json":
        return False
    if path.name.startswith("."):
        return True
    if path.name.startswith("part-") and path.suffix in (".parquet", ".json"):
        other = ".json" if path.suffix == ".parquet" else ".parquet"
        return not path.with_suffix(other).exists()
    return False


def _is_manifest(path: Path) -> bool:
    try:
        return isinstance(read_json(path), dict)
    except ValueError:
        return False


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.is_file())
