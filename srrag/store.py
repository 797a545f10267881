"""The artifact folder: parts, receipts, manifests and the one pointer, each committed atomically.

    root/srrag.json                                   layout version of this folder
    root/stages/<stage>/<fingerprint>/part-<name>.parquet   one part, one segment of documents
    root/stages/<stage>/<fingerprint>/part-<name>.json      its receipt: rows, hash, seconds
    root/stages/<stage>/<fingerprint>/manifest.json         what the stage is
    root/builds/<name>.json                           every stage's fingerprint and parts

Present means done: a part is renamed into place after its receipt, so whatever was killed
leaves either a whole part or none.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.ids import file_sha256

LAYOUT = 1


@dataclass(frozen=True)
class Receipt:
    """What became of one part: rows in = passed + skipped + failed.

    `skipped` rows were rejected by an earlier stage, `failed` ones by this one (an error or a
    crash); `rejected` counts the rows of the output that carry a reject, `reasons` by reason.
    `usage` is what answering its prompts took (srrag.completion.Usage), empty without a model.
    """

    part: str
    rows_in: int
    skipped: int
    failed: int
    rows_out: int
    rejected: int
    sha256: str
    num_bytes: int
    seconds: float
    reasons: dict[str, int] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)


def commit(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside its place, flush it to disk, and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def commit_json(path: Path, value: Any) -> None:
    """Commit a JSON file, indented for people."""

    def write(temporary: Path) -> None:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")

    commit(path, write)


def read_json(path: Path) -> Any:
    """Read a JSON file; raises ValueError that names it when it is not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from error


class Store:
    """The artifacts under one root folder on a local or shared file system."""

    def __init__(self, root: str | Path) -> None:
        """Bind a root; raises ValueError for an address that is not a folder path."""
        text = str(root)
        if "://" in text:
            raise ValueError(f"root={text}: only folders on a local or shared path are supported")
        self.root = Path(text).expanduser().resolve()

    def create(self) -> None:
        """Make the folder if need be and check that it is ours."""
        if self.root.exists() and not self.root.is_dir():
            raise ValueError(f"root={self.root} is a file, not a folder")
        if self.root.is_dir() and any(self.root.iterdir()) and not self._marker.exists():
            raise ValueError(f"root={self.root} holds files that are not ours (no srrag.json)")
        if not self._marker.exists():
            commit_json(self._marker, {"layout": LAYOUT})
        self.check()

    def check(self) -> None:
        """Raise ValueError unless the folder exists and has the layout of this version."""
        if not self._marker.exists():
            raise ValueError(f"root={self.root} holds no build; run `srrag build root=…` first")
        layout = read_json(self._marker).get("layout")
        if layout != LAYOUT:
            raise ValueError(f"root={self.root} has layout {layout}; this version reads {LAYOUT}")

    @property
    def _marker(self) -> Path:
        return self.root / "srrag.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the root for one writer; the lock goes with the process, however it ends."""
        with (self.root / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "another process"
                raise ValueError(f"root={self.root} is being written by {holder}") from None
            file.seek(0)
            file.truncate()
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield

    def stage_dir(self, stage: str, fingerprint: str) -> Path:
        """The folder of a stage with this fingerprint."""
        return self.root / "stages" / stage / fingerprint

    def part_path(self, stage: str, fingerprint: str, part: str) -> Path:
        """The Parquet file of a part."""
        return self.stage_dir(stage, fingerprint) / f"part-{part}.parquet"

    def parts(self, stage: str, fingerprint: str) -> set[str]:
        """Names of the parts that stand."""
        folder = self.stage_dir(stage, fingerprint)
        if not folder.is_dir():
            return set()
        names = set(os.listdir(folder))  # noqa: PTH208 (names alone, for many parts)
        return {
            name[5:-8]
            for name in names
            if name.startswith("part-")
            and name.endswith(".parquet")
            and f"{name[:-8]}.json" in names
        }

    def read_part(
        self, stage: str, fingerprint: str, part: str, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read one part, memory-mapped."""
        path = self.part_path(stage, fingerprint, part)
        return pq.read_table(path, columns=columns, memory_map=True, partitioning=None)

    def write_part(
        self,
        stage: str,
        fingerprint: str,
        table: pa.Table,
        receipt: Callable[[str, int], Receipt],
    ) -> Receipt:
        """Write a part: data, then receipt, then the rename that makes it count."""
        written: list[Receipt] = []

        def write(temporary: Path) -> None:
            write_parquet(table, temporary)
            done = receipt(file_sha256(temporary), temporary.stat().st_size)
            commit_json(self.receipt_path(stage, fingerprint, done.part), asdict(done))
            written.append(done)

        probe = receipt("", 0)
        commit(self.part_path(stage, fingerprint, probe.part), write)
        return written[0]

    def receipt_path(self, stage: str, fingerprint: str, part: str) -> Path:
        """The receipt of a part."""
        return self.stage_dir(stage, fingerprint) / f"part-{part}.json"

    def read_receipt(self, stage: str, fingerprint: str, part: str) -> Receipt:
        """Read the receipt of a part."""
        path = self.receipt_path(stage, fingerprint, part)
        if not path.exists():
            raise ValueError(f"{path} is missing; the same build command makes the part again")
        try:
            return Receipt(**read_json(path))
        except TypeError as error:
            raise ValueError(f"{path}: not a receipt ({error})") from error

    def pointer_path(self, build: str) -> Path:
        """The pointer of a named build."""
        return self.root / "builds" / f"{build}.json"

    def read_pointer(self, build: str) -> dict[str, Any]:
        """Read a build's pointer; raises ValueError that names the root when there is none."""
        self.check()
        path = self.pointer_path(build)
        if not path.exists():
            raise ValueError(f"root={self.root} holds no finished build {build!r}")
        pointer = read_json(path)
        if not isinstance(pointer, dict) or not isinstance(pointer.get("stages"), dict):
            raise ValueError(f"{path}: not the pointer of a build; run the build again")
        return pointer

    def artifacts(self, build: str) -> dict[str, Path]:
        """Folder of every stage of a finished build."""
        stages = self.read_pointer(build)["stages"]
        return {name: self.stage_dir(name, entry["fingerprint"]) for name, entry in stages.items()}

    def contents(self, build: str, names: Collection[str] | None = None) -> dict[str, list[Any]]:
        """What identifies each stage of a finished build: its fingerprint, and what it holds.

        Parts and files that were made again keep their names, so they are told by their hashes.
        """
        found: dict[str, list[Any]] = {}
        for name, entry in self.read_pointer(build)["stages"].items():
            if names is not None and name not in names:
                continue
            fingerprint = entry["fingerprint"]
            if "parts" in entry:
                receipts = (self.read_receipt(name, fingerprint, p) for p in entry["parts"])
                held: Any = {receipt.part: receipt.sha256 for receipt in receipts}
            else:
                held = manifest_files(self.stage_dir(name, fingerprint))
            found[name] = [fingerprint, held]
        return found


_checked: set[tuple[str, int, int]] = set()


def manifest_files(folder: Path) -> dict[str, str]:
    """The files of a build with their hashes; raises ValueError if the manifest names none."""
    manifest = read_json(folder / "manifest.json")
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not files:
        raise ValueError(f"{folder / 'manifest.json'} names no files; run the build again")
    return files


def check_files(folder: Path) -> None:
    """Check a build's files against the hashes of its manifest, once a process and file.

    Raises ValueError that names the file which is missing or not what was built.
    """
    for name, sha256 in manifest_files(folder).items():
        path = folder / name
        if not path.exists():
            raise ValueError(f"{path} is missing; run the build again")
        state = path.stat()
        key = (str(path), state.st_mtime_ns, state.st_size)
        if key in _checked:
            continue
        if file_sha256(path) != sha256:
            raise ValueError(f"{path} is not what was built (sha256 differs); it is not loaded")
        _checked.add(key)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write Parquet: binary columns plain (vectors do not compress), the rest by dictionary."""
    plain = [
        field.name
        for field in table.schema
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type)
    ]
    coded = [name for name in table.column_names if name not in plain]
    pq.write_table(
        table,
        path,
        compression={name: "NONE" if name in plain else "ZSTD" for name in table.column_names}
        if plain
        else "ZSTD",
        use_dictionary=coded,
        write_statistics=False,
    )
