"""The artifact folder: parts, receipts, manifests and the one pointer, each committed atomically.

    root/srrag.json                                   layout version, what `srrag init` settled
    root/stages/<stage>/<fingerprint>/part-<name>.parquet   one part, one segment of documents
    root/stages/<stage>/<fingerprint>/part-<name>.json      its receipt: rows, hash, seconds
    root/stages/<stage>/<fingerprint>/manifest.json         what the stage is
    root/builds/<name>.json                           every stage's fingerprint and parts

A part is valid once its receipt exists, and a build once its manifest exists. Every file is written
atomically, so a killed process leaves either a whole part or none. For a root on an object store,
`commit` uploads each file and reading downloads it (`srrag.storage.mirror`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.errors import UsageError
from srrag.core.spec import file_sha256
from srrag.storage import mirror, writer_lock
from srrag.storage.atomic_write import (
    commit,
    commit_json,
    keep_private,
    parse_json,
    read_json,
    write_parquet,
)
from srrag.storage.manifest import CURE, DamagedError, check_part, manifest_files, remember

LAYOUT = 1
_RECEIPT = re.compile(r"part-(.*)\.json")
_MARKER_LEFT = re.compile(r"\.srrag\.json\.[0-9a-f]{32}")
"""What a kill leaves of the first file of a root."""
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Receipt:
    """The record of one part: rows in = passed + skipped + failed.

    An earlier stage rejected the `skipped` rows, this one the `failed` rows (an error or a crash).
    `rejected` counts the output rows that carry a reject, `reasons` counts them by reason. `usage`
    is the cost of its prompts (srrag.llm.completion.Usage), empty without a model.
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


class Store:
    """The artifacts below one root: a local or shared folder, or a root on an object store."""

    def __init__(self, root: str | Path) -> None:
        """Bind a root; raises ValueError for an address of an unknown kind."""
        self.root = mirror.located(root)

    def __str__(self) -> str:
        """The root as a path or an address."""
        return mirror.shown(self.root)

    def create(self) -> None:
        """Create the root if it is missing; raises ValueError for a folder with other files."""
        if self.root.exists() and not self.root.is_dir():
            raise ValueError(f"root={self} is a file, not a folder")
        self._refresh()
        if not self._marker.exists():
            if not all(map(_MARKER_LEFT.fullmatch, mirror.listing(self.root))):
                raise ValueError(f"root={self} holds files that are not ours (no srrag.json)")
            self.write_marker()
        self.check()

    def write_marker(self, settled: Mapping[str, Any] = _NONE) -> None:
        """Write the marker file: the layout version, and what is settled for the whole root."""
        commit_json(self._marker, {"layout": LAYOUT, **settled}, sealed=True)

    def settled(self) -> dict[str, Any]:
        """The settings of the whole root; raises OSError or ValueError without a marker."""
        marker = read_json(self._marker)
        if not isinstance(marker, dict):
            raise DamagedError(f"{mirror.shown(self._marker)}: not the marker of a root; {CURE}")
        return {key: value for key, value in marker.items() if key != "layout"}

    def check(self) -> None:
        """Raise UsageError unless the root exists, ValueError for a layout of another version."""
        self._refresh()
        if not self._marker.exists():
            mirror.check_bucket(self.root)
            hint = "`srrag build PAPERS/` makes one, `srrag sample` one to try"
            raise UsageError(f"root={self} holds no build: {hint}")
        try:
            layout = read_json(self._marker)["layout"]
        except (ValueError, KeyError, TypeError):
            shown = mirror.shown(self._marker)
            raise DamagedError(f"{shown}: not the marker of a root; {CURE}") from None
        if layout != LAYOUT:
            raise ValueError(f"root={self} has layout {layout}; this version reads {LAYOUT}")

    def _refresh(self) -> None:
        """Download the current marker and pointers from the object store."""
        mirror.pull(self.root, recursive=False)
        mirror.pull(self.root / "builds")

    def bring_all(self) -> None:
        """Download the whole root; keep local files of jobs that the store lacks."""
        for folder in _FOLDERS:
            mirror.pull(self.root / folder, alone=folder != "jobs")

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Download the whole root, and afterwards delete on the store what the block deleted.

        Only for the process that holds the root's lock. After a kill the store still has the
        files. Raises RuntimeError if another run took the root over.
        """
        if mirror.store_at(self.root) is None:
            yield
            return
        before = {folder: mirror.files(self.root / folder) for folder in _FOLDERS}
        self.bring_all()
        yield
        writer_lock.check_held(self.root)
        for folder, names in before.items():
            mirror.match(self.root / folder, names)

    @property
    def _marker(self) -> Path:
        return self.root / "srrag.json"

    def lock(self) -> AbstractContextManager[None]:
        """Lock the root for one writer; the lock ends with the process, however that ends."""
        return writer_lock.writer_lock(self.root)

    def stage_dir(self, stage: str, fingerprint: str) -> Path:
        """The folder of a stage's version with this fingerprint."""
        return self.root / "stages" / stage / fingerprint

    def part_path(self, stage: str, fingerprint: str, part: str) -> Path:
        """The Parquet file of a part."""
        return self.stage_dir(stage, fingerprint) / f"part-{part}.parquet"

    def parts(self, stage: str, fingerprint: str) -> set[str]:
        """The names of the valid parts; also downloads their receipts."""
        folder = self.stage_dir(stage, fingerprint)
        names = mirror.pull(folder, lambda name: bool(_RECEIPT.fullmatch(name)), recursive=False)
        receipts = {found[1] for name in names if (found := _RECEIPT.fullmatch(name))}
        return {part for part in receipts if f"part-{part}.parquet" in names}

    def has_part(self, stage: str, fingerprint: str, part: str) -> bool:
        """Whether a part and its receipt exist."""
        paths = (
            self.receipt_path(stage, fingerprint, part),
            self.part_path(stage, fingerprint, part),
        )
        return all(map(mirror.exists, paths))

    def drop_part(self, stage: str, fingerprint: str, part: str) -> None:
        """Remove a part, first its receipt, which makes it valid."""
        mirror.remove(self.receipt_path(stage, fingerprint, part))
        mirror.remove(self.part_path(stage, fingerprint, part))

    def read_part(
        self,
        stage: str,
        fingerprint: str,
        part: str,
        columns: Sequence[str] | None = None,
        *,
        checked: bool = True,
    ) -> pa.Table:
        """Read one part, memory-mapped; raises DamagedError that names a damaged part.

        With `checked`, verify it against its receipt, once per process; leave this out only for
        reads from which nothing is built.
        """
        path = mirror.fetch(self.part_path(stage, fingerprint, part))
        if checked:
            mirror.bring(path.with_suffix(".json"))
            check_part(path)
        try:
            return pq.read_table(path, columns=columns, memory_map=True, partitioning=None)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            reason = str(error).partition("\n")[0]
            raise DamagedError(f"{mirror.shown(path)} is damaged ({reason}); {CURE}") from error

    def write_part(
        self,
        stage: str,
        fingerprint: str,
        part: str,
        table: pa.Table,
        *,
        rows_in: int | None = None,
        skipped: int = 0,
        failed: int = 0,
        usage: Mapping[str, Any] = _NONE,
        started: float | None = None,
    ) -> Receipt:
        """Write a part: its data, then the receipt that makes it valid.

        `rows_in` are the rows of its input, by default its own; `skipped`, `failed` and `usage` are
        as in Receipt; its seconds count from `started` (time.perf_counter).
        """
        path = self.part_path(stage, fingerprint, part)
        if stage.startswith(_ASKED):
            keep_private(self.root / "stages" / stage)
        began = time.perf_counter() if started is None else started
        reasons = count_reasons(table)
        written: list[Receipt] = []

        def write(temporary: Path) -> None:
            write_parquet(table, temporary)
            receipt = Receipt(
                part=part,
                rows_in=table.num_rows if rows_in is None else rows_in,
                skipped=skipped,
                failed=failed,
                rows_out=table.num_rows,
                rejected=sum(reasons.values()),
                sha256=file_sha256(temporary),
                num_bytes=temporary.stat().st_size,
                seconds=round(time.perf_counter() - began, 4),
                reasons=reasons,
                usage=dict(usage),
            )
            written.append(receipt)

        # Remove the old receipt before rewriting a part, since it describes other data.
        mirror.remove(path.with_suffix(".json"))
        commit(path, write)
        commit_json(path.with_suffix(".json"), asdict(written[0]), sealed=True)
        remember(path)
        return written[0]

    def receipt_path(self, stage: str, fingerprint: str, part: str) -> Path:
        """The file of a part's receipt."""
        return self.stage_dir(stage, fingerprint) / f"part-{part}.json"

    def read_receipt(self, stage: str, fingerprint: str, part: str) -> Receipt:
        """Read a part's receipt; raises ValueError if missing, DamagedError if damaged."""
        path = self.receipt_path(stage, fingerprint, part)
        try:
            here = path if path.exists() else mirror.fetch(path)
            return Receipt(**_parsed(here, path))
        except FileNotFoundError:
            again = "the same build command makes the part again"
            raise ValueError(f"{mirror.shown(path)} is missing; {again}") from None
        except TypeError as error:
            raise DamagedError(f"{mirror.shown(path)}: not a receipt ({error}); {CURE}") from error

    def receipts(self, stage: str, fingerprint: str, parts: Iterable[str]) -> list[Receipt]:
        """Read the receipts of parts, in the order of the parts."""
        self.parts(stage, fingerprint)
        return [self.read_receipt(stage, fingerprint, part) for part in parts]

    def builds(self) -> list[str]:
        """The names of the builds that have a pointer here, damaged ones too."""
        return sorted(path.stem for path in (self.root / "builds").glob("[!.]*.json"))

    def pointer_path(self, build: str) -> Path:
        """The file of a build's pointer."""
        return self.root / "builds" / f"{build}.json"

    def read_pointer(self, build: str) -> dict[str, Any]:
        """Read a build's pointer; raises UsageError that names the root if there is none."""
        self.check()
        path = self.pointer_path(build)
        if not path.exists():
            raise UsageError(f"root={self} holds no finished build {build!r}")
        pointer: dict[str, Any] = _parsed(path, path)
        if not _is_pointer(pointer):
            raise DamagedError(f"{mirror.shown(path)}: not the pointer of a build; {CURE}")
        return pointer

    def write_pointer(self, build: str, pointer: dict[str, Any]) -> None:
        """Swap a build's pointer; raises RuntimeError if another run took the root over."""
        writer_lock.check_held(self.root)
        commit_json(self.pointer_path(build), pointer, sealed=True)

    def artifacts(self, build: str) -> dict[str, Path]:
        """The folder of every stage of a finished build; `mirror.pull_build` downloads one."""
        stages = self.read_pointer(build)["stages"]
        return {name: self.stage_dir(name, entry["fingerprint"]) for name, entry in stages.items()}

    def contents(self, build: str, names: Collection[str] | None = None) -> dict[str, list[Any]]:
        """The identity of each stage of a finished build: its fingerprint and its files' hashes.

        Rebuilt parts and files keep their names, so only the hashes distinguish them.
        """
        found: dict[str, list[Any]] = {}
        for name, entry in self.read_pointer(build)["stages"].items():
            if names is not None and name not in names:
                continue
            found[name] = [entry["fingerprint"], self.held(name, entry)]
        return found

    def held(self, stage: str, entry: Mapping[str, Any]) -> dict[str, str]:
        """The sha256 of each part or file of a stage, given its entry in a pointer."""
        if "parts" not in entry:
            return manifest_files(self.stage_dir(stage, entry["fingerprint"]))
        receipts = self.receipts(stage, entry["fingerprint"], entry["parts"])
        return {receipt.part: receipt.sha256 for receipt in receipts}


def count_reasons(table: pa.Table) -> dict[str, int]:
    """Count the rejected rows by reason."""
    if "reject" not in table.column_names:
        return {}
    rejected = table.column("reject").drop_null().combine_chunks()
    if not len(rejected):
        return {}
    counts = pc.value_counts(pc.struct_field(rejected, "reason")).to_pylist()
    return {item["values"]: item["counts"] for item in counts}


def _is_pointer(value: Any) -> bool:
    """Whether a JSON value has the form of a pointer: stages with fingerprints."""
    stages = value.get("stages") if isinstance(value, dict) else None
    return isinstance(stages, dict) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("fingerprint"), str)
        and isinstance(entry.get("parts", []), list)
        and isinstance(entry.get("inputs", []), list)
        for entry in stages.values()
    )


def _parsed(here: Path, path: Path) -> Any:
    """Parse the local copy `here` of a file; raises DamagedError that names `path`."""
    try:
        return parse_json(here.read_bytes(), path)
    except ValueError as error:
        raise DamagedError(f"{error}; {CURE}") from error


_FOLDERS = ("stages", "builds", "jobs", "statuses")
_ASKED = ("questions", "answers")
"""What the names of stages begin with that hold questions and answers."""
