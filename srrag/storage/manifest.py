"""Checks files against manifests and parts against receipts, seals folders, reads live rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.errors import SrragError
from srrag.core.spec import file_sha256
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.mirror import join, opened, pull_build
from srrag.storage.object_store import MANIFEST

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
    and one without a current local copy, which the object store checks itself.
    """
    receipt = path.with_suffix(".json")
    store = mirror.store_at(path)
    try:
        if (key := _state(path)) in _checked:
            return
    except FileNotFoundError:
        if store or not receipt.exists():
            return
        raise DamagedError(f"{mirror.shown(path)} is missing; {CURE}") from None
    if store:
        if not store.is_current(path):
            return  # who reads it reads the store
        mirror.bring(receipt)
    if not receipt.exists():
        return
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


SUFFIXES = (".json", ".jinja", ".model", ".txt")
"""Files besides the weights that affect answers: configuration, tokenizer, chat template."""

MAX_HEADER_BYTES = 100_000_000
SAMPLE_BYTES = 4096


def folder_revision(folder: Path, within: Sequence[str] = ()) -> str:
    """Hash the content of a model's folder: "sha256:" and 20 hex digits.

    The hash covers small files whole, and of weights the header (names, types, shapes) and the
    middle 4 KiB of every tensor, which change when the model is trained further in place. It covers
    the folders `within` too. Raises ValueError for a folder without safetensors weights.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder of a model")
    places = [folder, *(folder / name for name in within if (folder / name).is_dir())]
    files = [path for each in places for path in sorted(each.iterdir()) if path.is_file()]
    if not any(path.suffix == ".safetensors" for path in files):
        raise ValueError(f"{folder}: no weights as safetensors; other formats are not loaded")
    digest = hashlib.sha256()
    for path in files:
        if path.suffix in SUFFIXES:
            pieces: Iterator[bytes] = iter([path.read_bytes()])
        elif path.suffix == ".safetensors":
            pieces = _weights(path)
        else:
            continue
        digest.update(f"\0{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        for piece in pieces:
            digest.update(piece)
    return f"sha256:{digest.hexdigest()[:20]}"


def _weights(path: Path) -> Iterator[bytes]:
    """Yield the header of a safetensors file, then the middle of each tensor in file order."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            if size > MAX_HEADER_BYTES:
                raise ValueError(f"a header of {size} bytes")
            header = file.read(size)
            spans = sorted(
                tuple(map(int, entry["data_offsets"]))
                for name, entry in json.loads(header).items()
                if name != "__metadata__"
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not a safetensors file: {error}") from error
        yield header
        for start, end in spans:
            middle = max(start, math.floor((start + end - SAMPLE_BYTES) / 2))
            file.seek(8 + size + middle)
            yield file.read(min(SAMPLE_BYTES, end - middle))


def read_live(paths: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the live rows of each part, with these columns.

    Each part is first checked against its receipt, once a process; raises DamagedError that names a
    damaged part.
    """
    for path in paths:
        check_part(path)
        file = pq.ParquetFile(opened(path))
        names = file.schema_arrow.names
        wanted = [*columns, "reject"] if "reject" in names else list(columns)
        table = file.read(columns=wanted)
        if "reject" in names:
            rejects = table["reject"]
            if rejects.null_count < len(table):  # a filter copies all texts, and few parts need it
                table = table.filter(pc.is_null(rejects))
            table = table.drop_columns(["reject"])
        yield table
