"""The writer of a completions log: appends lines to its own file, and seals the file to a part."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType

from srrag.engine.log.entry import GROUP_ROWS, Entry
from srrag.engine.log.listing import journal_file, names_in, new_name
from srrag.engine.log.parts import seal
from srrag.storage.atomic_write import keep_private, naming_a_full_disk


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

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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
