"""The writer of a completions log: appends lines to its own file, and seals the file to a part."""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import chain
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.spec import file_sha256
from srrag.engine.log.entry import (
    ENTRY,
    GROUP_ROWS,
    Entry,
    SealReceipt,
    entries_to_tables,
    faults_file,
    journal_file,
    names_in,
    new_name,
    next_name,
    part_file,
    read_receipt,
    receipt_file,
)
from srrag.llm.completion import one_line
from srrag.storage.atomic_write import commit, commit_json, keep_private, naming_a_full_disk
from srrag.storage.manifest import CURE, DamagedError


def open_part(path: Path) -> pq.ParquetFile:
    """Open a sealed file with page checksums; raises ValueError that names a damaged file."""
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        known = file.schema_arrow.equals(ENTRY)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, error) from error
    if not known:
        raise DamagedError(f"{path}: not a part of a completions log (other columns); {CURE}")
    return file


def read_group(
    file: pq.ParquetFile, path: Path, group: int, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read one row group; raises ValueError that names the file if it is damaged."""
    try:
        return file.read_row_group(group, columns=columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, error) from error


def read_groups(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the row groups of a file in order; raises ValueError that names a damaged file."""
    with open_part(path) as file:
        for group in range(file.num_row_groups):
            yield read_group(file, path, group, columns)


def damaged(path: Path, error: Exception) -> ValueError:
    """Make the one-line error for a damaged file."""
    return DamagedError(f"{path} is damaged and is not read ({one_line(error, 200)}); {CURE}")


class Groups:
    """Reads row groups of a folder's files; keeps recent groups, and some files open."""

    def __init__(self, folder: Path, keep: int = 16) -> None:
        """Bind the folder; `keep` bounds both the row groups and the open files."""
        self._folder = folder
        self._opened = lru_cache(keep)(lambda file: open_part(folder / file))
        self.read = lru_cache(keep)(self._read)
        """Read one row group; raises ValueError that names a damaged file."""

    def _read(self, file: str, group: int) -> pa.Table:
        return read_group(self._opened(file), self._folder / file, group)


def seal(folder: Path, name: str, entries: Sequence[Entry]) -> None:
    """Write a journal's entries as a part of the same name, then remove the journal."""
    if entries:
        good = [entry for entry in entries if not entry.fault]
        bad = [entry for entry in entries if entry.fault]
        write_part(folder, name, entries_to_tables(good), entries_to_tables(bad))
    (folder / journal_file(name)).unlink(missing_ok=True)


def replace(
    folder: Path, names: Sequence[str], drop: frozenset[bytes] = frozenset()
) -> SealReceipt:
    """Merge neighbouring parts into one, without the rows of the keys in `drop`; delete the old.

    Streams one row group at a time. The new name sorts directly after the first old one, so rows
    keep their order.
    """
    good = _groups(folder, [part_file(name) for name in names], drop)
    bad = _groups(folder, [f for f in map(faults_file, names) if (folder / f).exists()], drop)
    receipt = write_part(folder, next_name(names[0]), good, bad, replaces=names)
    for name in names:
        remove(folder, name)
    return receipt


def remove(folder: Path, name: str) -> None:
    """Delete the files of a part, starting with the one that makes it valid."""
    for file in (part_file(name), faults_file(name), receipt_file(name)):
        (folder / file).unlink(missing_ok=True)


def _groups(folder: Path, files: Iterable[str], drop: frozenset[bytes]) -> Iterator[pa.Table]:
    """Yield the row groups of files, with small neighbours joined up to 2,000 rows."""
    waiting: list[pa.Table] = []
    gone = pa.array(list(drop), ENTRY.field("key").type)
    for table in chain.from_iterable(read_groups(folder / file) for file in files):
        kept = table.filter(pc.invert(pc.is_in(table["key"], gone)))
        if sum(map(len, waiting)) + len(kept) > GROUP_ROWS and waiting:
            yield _sorted(waiting)
            waiting = []
        waiting.append(kept)
    if waiting:
        yield _sorted(waiting)


def _sorted(tables: list[pa.Table]) -> pa.Table:
    keys = [key for table in tables for key in table["key"].to_pylist()]
    order = sorted(range(len(keys)), key=keys.__getitem__)  # stable: equal keys keep their order
    return pa.concat_tables(tables).combine_chunks().take(pa.array(order, pa.int64()))


def write_part(
    folder: Path,
    name: str,
    good: Iterator[pa.Table],
    bad: Iterator[pa.Table],
    replaces: Sequence[str] = (),
) -> SealReceipt:
    """Write faults, receipt and part, in this order; renaming the part makes all of them valid."""
    sums, faults = Counter[str](), Counter[str]()
    sha256: dict[str, str] = {}

    def write_faults(temporary: Path) -> None:
        _write(temporary, _counted(bad, sums, faults))
        sha256[faults_file(name)] = file_sha256(temporary)

    def write_good(temporary: Path) -> None:
        rows = Counter[str]()
        _write(temporary, _counted(good, sums, rows))
        sha256[part_file(name)] = file_sha256(temporary)
        receipt = SealReceipt(
            completions=rows.total(),
            faults=dict(sorted(faults.items())),
            tokens_in=sums["tokens_in"],
            tokens_out=sums["tokens_out"],
            usd=float(sums["usd"]),
            sha256=sha256,
            replaces=list(replaces),
        )
        commit_json(folder / receipt_file(name), asdict(receipt))

    first = next(filter(len, bad), None)
    if first is None:
        (folder / faults_file(name)).unlink(missing_ok=True)  # left by a killed attempt
    else:
        bad = chain([first], bad)
        commit(folder / faults_file(name), write_faults)
    commit(folder / part_file(name), write_good)
    _sync(folder)
    return read_receipt(folder, name)


def _counted(
    tables: Iterable[pa.Table], sums: Counter[str], kinds: Counter[str]
) -> Iterator[pa.Table]:
    for table in tables:
        for name in ("tokens_in", "tokens_out", "usd"):
            sums[name] += pc.sum(table[name]).as_py() or 0
        kinds.update(table["fault"].to_pylist())
        yield table


def _write(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write Parquet with one row group per table and a checksum on every page."""
    with pq.ParquetWriter(
        path,
        ENTRY,
        compression={name: "NONE" if name == "key" else "ZSTD" for name in ENTRY.names},
        use_dictionary=["fault", "task", "engine"],
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for table in tables:
            if len(table):
                writer.write_table(table, row_group_size=len(table))


def _sync(folder: Path) -> None:
    """Flush the folder, so that a file is on disk before the ones that it replaces are deleted."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Journal:
    """Appends entries; an entry survives the death of the process once `append` has returned.

    It seals its file at `seal_rows` rows, or at an `append` or `seal_if_due` when the first line
    is older than `seal_s` seconds. It holds a file lock that ends with the process.
    """

    def __init__(self, folder: Path, *, seal_rows: int = GROUP_ROWS, seal_s: float = 300.0) -> None:
        """Bind the folder; the first append creates the file."""
        self.folder = folder
        self.seal_rows = seal_rows
        self.seal_s = seal_s
        self._entries: list[Entry] = []
        self._recent: tuple[dict[bytes, Entry], dict[bytes, Entry]] = ({}, {})
        self._name = ""
        self._file = -1
        self._born = 0.0
        self._lock = Lock()

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries, in order; raises OSError if the disk fails or is full."""
        lines = [entry.line() for entry in entries]
        with self._lock:
            for start in range(0, len(lines), self.seal_rows):
                end = start + self.seal_rows
                self._append(entries[start:end], b"".join(lines[start:end]))

    def find(self, key: bytes) -> Entry | None:
        """Find a recently appended entry, which readers may not have seen yet."""
        with self._lock:
            older, newer = self._recent
            return older.get(key) or newer.get(key)

    def seal_if_due(self) -> None:
        """Seal the file if it is old enough; for a writer that may not append for a while."""
        with self._lock:
            self._seal_if_due()

    def close(self) -> None:
        """Seal the file; a later append starts a new one."""
        with self._lock:
            self._seal()

    def _append(self, entries: Sequence[Entry], data: bytes) -> None:
        if self._entries and len(self._entries) + len(entries) > self.seal_rows:
            self._seal()
        self._write(data)
        if os.fstat(self._file).st_nlink == 0:
            # Another run considered this one dead, sealed its file and removed it.
            self._leave()
            self._write(data)
        self._entries.extend(entries)
        for entry in entries:
            self._recent[1].setdefault(entry.key, entry)
        self._seal_if_due()

    def _write(self, data: bytes) -> None:
        if self._file < 0:
            self._start()
        done = 0
        try:
            with naming_a_full_disk(self.folder / journal_file(self._name)):
                while done < len(data):
                    done += os.write(self._file, data[done:])
        except OSError:
            self._leave()  # only the last line of a file may be incomplete
            raise

    def _start(self) -> None:
        keep_private(self.folder)
        last = max(set().union(*names_in(self.folder)), default="")
        self._name = new_name(time.time_ns() // 1_000_000, after=last)
        path = self.folder / journal_file(self._name)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._born = time.monotonic()

    def _seal_if_due(self) -> None:
        old = time.monotonic() - self._born >= self.seal_s
        if old or len(self._entries) >= self.seal_rows:
            self._seal()

    def _seal(self) -> None:
        if self._file >= 0:
            seal(self.folder, self._name, self._entries)
            self._leave()

    def _leave(self) -> None:
        os.close(self._file)
        self._entries, self._name, self._file = [], "", -1
        self._recent = (self._recent[1], {})


def is_written(path: Path, settle_s: float) -> bool:
    """Whether a journal may still have a writer: it is locked or was written in `settle_s` seconds.

    The lock reveals writers on this machine; the time of the last write also those on others.
    """
    with path.open("rb") as file:
        if time.time() - os.fstat(file.fileno()).st_mtime < settle_s:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read_journal(path: Path, offset: int = 0) -> tuple[list[Entry], int]:
    """Read the complete lines from a byte offset on; returns entries and the offset after them.

    Leaves out a last line without newline: a kill cut it off before it was acknowledged. Raises
    ValueError that names the file and the byte of a damaged line.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    entries = []
    for line in data.split(b"\n")[:-1]:
        try:
            entries.append(Entry.of_line(line))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: the line at byte {offset} is damaged ({error}); "
                "delete it, and its prompt is asked again, or `srrag build … repair=true` does"
            ) from error
        offset += len(line) + 1
    return entries, offset
