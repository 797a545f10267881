"""Locates every row of a completions log, also while another process writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from srrag.engine.log.entry import ENTRY, KEY_BYTES, Entry, entries_to_tables, table_to_entries
from srrag.engine.log.journal import read_journal
from srrag.engine.log.listing import (
    FAULTS,
    PART,
    Listing,
    faults_file,
    journal_file,
    list_log,
    part_file,
)
from srrag.engine.log.parts import Groups, read_groups

TAIL_ROWS = 50_000
"""Keys of newer files that are indexed beside the others before all become one index."""

_IN_JOURNAL = -1


class RowPosition(NamedTuple):
    """The position of a row. Positions sort by priority: completions first, then by name."""

    is_fault: bool
    name: str
    group: int
    row: int


@dataclass(frozen=True)
class KeyIndex:
    """An index of the keys in some files.

    `heads`, shape (keys,), holds the first 8 bytes of each key as a number, sorted. `places`, shape
    (keys, 3), tells where each stands: number of the file, row group, row within the group.
    """

    files: tuple[str, ...] = ()
    heads: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    places: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 3), np.int32))

    def __len__(self) -> int:
        return len(self.heads)

    def rows_of(self, heads: NDArray[np.uint64]) -> Iterator[tuple[int, RowPosition]]:
        """Yield each of these heads that is known with a position, as often as there are rows."""
        low = np.searchsorted(self.heads, heads, side="left")
        high = np.searchsorted(self.heads, heads, side="right")
        for at in np.flatnonzero(high > low).tolist():
            for file, group, row in self.places[low[at] : high[at]].tolist():
                yield int(heads[at]), RowPosition(*_of_file(self.files[file]), group, row)


def head_of(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """The first 8 bytes of each key as a number that sorts like the key, shape (keys,).

    Raises ValueError for a key that is not 16 bytes long.
    """
    if any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"the key of a completion has {KEY_BYTES} bytes")
    return np.frombuffer(b"".join(keys), ">u8")[::2].astype(np.uint64)


def index_file(folder: Path, name: str) -> KeyIndex:
    """Index the keys of one file; raises ValueError that names a damaged file."""
    heads, places = [np.empty(0, np.uint64)], [np.empty((0, 3), np.int32)]
    for group, table in enumerate(read_groups(folder / name, ["key"])):
        rows = np.arange(len(table), dtype=np.int32)
        heads.append(head_of(table["key"].to_pylist()))
        places.append(np.column_stack([np.zeros_like(rows), np.full_like(rows, group), rows]))
    return _sorted((name,), np.concatenate(heads), np.concatenate(places))


def join(indexes: Sequence[KeyIndex]) -> KeyIndex:
    """Merge indexes into one, in time linear in their rows, since each is sorted."""
    first = np.cumsum([0, *(len(index.files) for index in indexes)], dtype=np.int32)
    places = [
        index.places + np.array([start, 0, 0], np.int32)
        for index, start in zip(indexes, first, strict=False)
    ]
    files = tuple(file for index in indexes for file in index.files)
    heads = np.concatenate([index.heads for index in indexes])
    return _sorted(files, heads, np.concatenate(places))


def _sorted(
    files: tuple[str, ...], heads: NDArray[np.uint64], places: NDArray[np.int32]
) -> KeyIndex:
    order = np.argsort(heads, kind="stable")
    return KeyIndex(files, heads[order], places[order])


@dataclass
class _OpenJournal:
    """The lines read so far of an unsealed journal, and their rows by the head of the key."""

    entries: list[Entry] = field(default_factory=list)
    rows: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    offset: int = 0

    def read_on(self, path: Path) -> None:
        """Read the lines that were written since."""
        if path.stat().st_size <= self.offset:
            return
        new, self.offset = read_journal(path, self.offset)
        for row, head in enumerate(
            head_of([entry.key for entry in new]).tolist(), len(self.entries)
        ):
            self.rows[head].append(row)
        self.entries += new


class LogReader:
    """The index of the sealed files, and the lines of unsealed journals, as of the last refresh.

    `tail` indexes the newer files, so that a refresh need not sort all keys again.
    """

    def __init__(self, folder: Path) -> None:
        """Bind the folder, which need not exist yet."""
        self.folder = folder
        self.groups = Groups(folder)
        self.listing = Listing()
        self.kept = KeyIndex()
        self.tail = KeyIndex()
        self.journals: dict[str, _OpenJournal] = {}

    def refresh(self) -> None:
        """Read the files that were written since the last refresh."""
        while True:
            listing = list_log(self.folder)
            try:
                self._follow(listing)
            except FileNotFoundError:  # sealed or merged while it was read
                if listing == list_log(self.folder):
                    raise
                continue
            self.listing = listing
            return

    def _follow(self, listing: Listing) -> None:
        files = frozenset(listing.files())
        if not files.issuperset(self.kept.files + self.tail.files):
            self.kept, self.tail = KeyIndex(), KeyIndex()
        new = sorted(files.difference(self.kept.files, self.tail.files))
        if new:
            self.tail = join([self.tail, *(index_file(self.folder, file) for file in new)])
        if len(self.tail) > max(TAIL_ROWS, len(self.kept) // 8):
            self.kept, self.tail = join([self.kept, self.tail]), KeyIndex()
        journals = {name: self.journals.get(name, _OpenJournal()) for name in listing.journals}
        for name, journal in journals.items():
            journal.read_on(self.folder / journal_file(name))
        self.journals = journals

    def places(self, heads: NDArray[np.uint64]) -> dict[int, list[RowPosition]]:
        """The positions of all rows whose keys have these heads, by head, in order of priority."""
        places: defaultdict[int, list[RowPosition]] = defaultdict(list)
        for index in (self.kept, self.tail):
            for head, place in index.rows_of(heads):
                places[head].append(place)
        for name, journal in self.journals.items():
            for head in journal.rows.keys() & set(heads.tolist()):
                for row in journal.rows[head]:
                    is_fault = bool(journal.entries[row].fault)
                    places[head].append(RowPosition(is_fault, name, _IN_JOURNAL, row))
        for several in places.values():
            several.sort()
        return places

    def entries(self, is_fault: bool, name: str, group: int, rows: list[int]) -> list[Entry]:
        """Read the entries at rows of one row group."""
        if group == _IN_JOURNAL:
            return [self.journals[name].entries[row] for row in rows]
        file = faults_file(name) if is_fault else part_file(name)
        return table_to_entries(self.groups.read(file, group).take(rows))

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of all rows, in order of priority; raises FileNotFoundError if one went."""
        tables = [ENTRY.empty_table().select(columns)]
        for is_fault in (False, True):
            for name in sorted({*self.listing.parts, *self.journals}):
                if name in self.journals:
                    entries = self.journals[name].entries
                    chosen = [entry for entry in entries if bool(entry.fault) == is_fault]
                    tables += [table.select(columns) for table in entries_to_tables(chosen)]
                elif not is_fault or name in self.listing.faults:
                    file = faults_file(name) if is_fault else part_file(name)
                    tables += read_groups(self.folder / file, columns)
        return pa.concat_tables(tables)


def _of_file(file: str) -> tuple[bool, str]:
    """Whether a sealed file holds faults, and its name."""
    is_fault = file.startswith(FAULTS)
    return is_fault, file[len(FAULTS if is_fault else PART) : -len(".parquet")]
