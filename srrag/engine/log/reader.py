"""Locates every row of a completions log, also while another process writes."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srrag.engine.log.entry import Entry, table_to_entries
from srrag.engine.log.index import KeyIndex, empty_index, head_of, index_file, join, load, save
from srrag.engine.log.journal import read_journal
from srrag.engine.log.listing import (
    FAULTS,
    PART,
    Listing,
    LogListingReader,
    faults_file,
    journal_file,
    part_file,
)
from srrag.engine.log.parts import Groups

_IN_JOURNAL = -1
_PAID = ("key", "tokens_in", "tokens_out")


class RowPosition(NamedTuple):
    """The position of a row. Positions sort by priority: completions first, then by name."""

    is_fault: bool
    name: str
    group: int
    row: int


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

    An index of more than `keep_rows` keys is saved beside the log, where processes share it;
    `tail` indexes the newer files.
    """

    def __init__(self, folder: Path, keep_rows: int) -> None:
        """Bind the folder, which need not exist yet."""
        self.folder = folder
        self.keep_rows = keep_rows
        self.standing = LogListingReader(folder)
        self.groups = Groups(folder)
        self.listing = Listing()
        self.kept: KeyIndex | None = None
        self.tail = empty_index()
        self.journals: dict[str, _OpenJournal] = {}

    def refresh(self) -> None:
        """Read the files that were written since the last refresh."""
        while True:
            listing = self.standing.now()
            try:
                self._follow(listing)
            except FileNotFoundError:  # sealed or merged while it was read
                if listing == self.standing.now():
                    raise
                continue
            self.listing = listing
            return

    def _follow(self, listing: Listing) -> None:
        files = frozenset(listing.files())
        if self.kept is None or not files.issuperset(self.kept.files + self.tail.files):
            self.kept, self.tail = load(self.folder, files), empty_index()
        new = sorted(files.difference(self.kept.files, self.tail.files))
        if new:
            self.tail = join([self.tail, *(index_file(self.folder, file) for file in new)])
        if len(self.tail) > max(self.keep_rows, len(self.kept) // 8):
            whole = join([self.kept, self.tail])
            writable = os.access(self.folder, os.W_OK)
            self.kept = save(self.folder, whole) if writable else whole
            self.tail = empty_index()
        journals = {name: self.journals.get(name, _OpenJournal()) for name in listing.journals}
        for name, journal in journals.items():
            journal.read_on(self.folder / journal_file(name))
        self.journals = journals

    def places(self, heads: NDArray[np.uint64]) -> dict[int, list[RowPosition]]:
        """The positions of all rows whose keys have these heads, by head, in order of priority."""
        places: defaultdict[int, list[RowPosition]] = defaultdict(list)
        for index in (self.kept or empty_index(), self.tail):
            if not len(index):
                continue
            low = np.searchsorted(index.heads, heads, side="left")
            count = np.searchsorted(index.heads, heads, side="right") - low
            within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            which = np.repeat(heads, count).tolist()
            found = index.places(np.repeat(low, count) + within)
            for head, (file, group, row) in zip(which, found, strict=True):
                places[head].append(RowPosition(*_of_file(file), group, row))
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

    def paid(
        self, is_fault: bool, name: str, group: int, rows: list[int]
    ) -> list[tuple[bytes, int, int]]:
        """Read key, tokens in and tokens out at rows of one row group."""
        if group == _IN_JOURNAL:
            entries = [self.journals[name].entries[row] for row in rows]
            return [(entry.key, entry.tokens_in, entry.tokens_out) for entry in entries]
        file = faults_file(name) if is_fault else part_file(name)
        table = self.groups.read_columns(file, group, _PAID).take(rows)
        return list(zip(*(table[column].to_pylist() for column in _PAID), strict=True))

    def repeated(self) -> NDArray[np.uint64]:
        """The heads that more than one row has, shape (heads,)."""
        loose = [entry.key for journal in self.journals.values() for entry in journal.entries]
        heads = np.sort(np.concatenate([self.tail.heads, head_of(loose)]))
        several = [heads[1:][heads[1:] == heads[:-1]]]
        if self.kept is not None and len(self.kept):
            kept = self.kept.heads
            at = np.minimum(np.searchsorted(kept, heads), len(kept) - 1)
            several += [kept[1:][kept[1:] == kept[:-1]], heads[kept[at] == heads]]
        return np.unique(np.concatenate(several))


def _of_file(file: str) -> tuple[bool, str]:
    """Whether a sealed file holds faults, and its name."""
    is_fault = file.startswith(FAULTS)
    return is_fault, file[len(FAULTS if is_fault else PART) : -len(".parquet")]
