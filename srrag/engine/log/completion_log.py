"""The completions log: cache, checkpoint and receipt of every answer that was paid for."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from srrag.engine.log.entry import (
    ENTRY,
    FAULTS,
    KEY_BYTES,
    PART,
    Entry,
    Listing,
    entries_to_tables,
    faults_file,
    journal_file,
    list_log,
    part_file,
    read_receipt,
    table_to_entries,
)
from srrag.engine.log.journal import Groups, read_groups, read_journal
from srrag.engine.log.recover import COUNTED, damage, forget, mend, recover
from srrag.storage.atomic_write import keep_private
from srrag.storage.manifest import DamagedError
from srrag.storage.mirror import shown, store_at
from srrag.storage.writer_lock import file_lock

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


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Totals of a log. Each key has one row that counts; further rows of it were paid twice."""

    completions: int
    faults: dict[str, int]
    tokens_in: int
    tokens_out: int
    usd: float
    paid_twice: int
    paid_twice_tokens_in: int
    paid_twice_tokens_out: int

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Proof:
    """The result of reading the whole log: problems by file, or the totals if there are none."""

    problems: list[str]
    totals: Totals | None


class CompletionLog:
    """Reads a log, even while another process writes it.

    It lists the folder at most every `refresh_s` seconds.
    """

    def __init__(self, folder: Path, *, refresh_s: float = 1.0, settle_s: float = 5.0) -> None:
        """Bind the folder, which need not exist yet.

        `recover` seals journals that nobody has written for `settle_s` seconds.
        """
        self.folder = folder
        self.refresh_s = refresh_s
        self.settle_s = settle_s
        self.view = LogReader(folder)
        self._looked = -np.inf
        self._lock = RLock()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the log for one run, at most until the process ends.

        Raises ValueError that names the present holder, or for an object store.
        """
        if store_at(self.folder):
            raise ValueError(
                f"completions={shown(self.folder)}: the log of answers is appended to, which an "
                f"object store cannot do; give a folder that all nodes see"
            )
        keep_private(self.folder)
        with file_lock(self.folder, "completions"):
            yield

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """Look up keys of 16 bytes: returns a key's completion if there is one, else its fault.

        Reads only row groups that may hold a key. Raises ValueError that names a damaged file.
        """
        with self._lock:
            if time.monotonic() - self._looked >= self.refresh_s:
                self.refresh()
            try:
                return self._find(keys)
            except FileNotFoundError:  # the parts were merged into others meanwhile
                self.refresh()
                return self._find(keys)

    def refresh(self) -> None:
        """Read the files that were written since the last refresh."""
        with self._lock:
            self.view.refresh()
            self._looked = time.monotonic()

    def recover(self) -> None:
        """Clean up, seal and compact the log; only for the run that holds its lock."""
        recover(self.folder, self.settle_s)

    def forget(self, keys: Iterable[bytes]) -> int:
        """Rewrite the files that hold these keys without them, and return the rows removed.

        Only for the run that holds the lock. Raises ValueError if a journal is being written.
        """
        with self._lock:
            self.refresh()
            gone = frozenset(keys)
            places = self.view.places(np.unique(head_of(sorted(gone))))
            names = frozenset(place.name for row in places.values() for place in row)
            removed = forget(self.folder, gone, names)
            self.refresh()
            return removed

    def mend(self) -> list[str]:
        """Remove unreadable rows, and return a line for each changed file; needs the lock."""
        with self._lock:
            done = list(mend(self.folder))
            self.view = LogReader(self.folder)
            self.refresh()
            return done

    def verify(self) -> Proof:
        """Read the whole log; returns the damage by file, or the totals if there is none."""
        with self._lock:
            problems = [*damage(self.folder)]
            return Proof(problems, None if problems else self.totals())

    def totals(self) -> Totals:
        """Counts and sums over all rows."""
        with self._lock:
            rows = self._counted()
        faults = Counter(rows["fault"].to_pylist())
        keys = np.frombuffer(b"".join(rows["key"].to_pylist()), f"S{KEY_BYTES}")
        again = np.ones(len(rows), np.bool_)
        again[np.unique(keys, return_index=True)[1]] = False
        extra = rows.filter(pa.array(again))
        return Totals(
            completions=faults.pop("", 0),
            faults=dict(faults.most_common()),
            tokens_in=_sum(rows, "tokens_in"),
            tokens_out=_sum(rows, "tokens_out"),
            usd=math.fsum(rows["usd"].to_pylist()),
            paid_twice=len(extra),
            paid_twice_tokens_in=_sum(extra, "tokens_in"),
            paid_twice_tokens_out=_sum(extra, "tokens_out"),
        )

    def _counted(self) -> pa.Table:
        """What is counted of every row, the first of a key before the others."""
        while True:
            self.refresh()
            try:
                return self.view.rows(COUNTED)
            except FileNotFoundError:  # the parts were merged into others meanwhile
                if self.view.listing == list_log(self.folder):
                    raise

    def _find(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        wanted = sorted(set(keys))
        places = self.view.places(np.unique(head_of(wanted)))
        waiting = {
            key: places[head]
            for key, head in zip(wanted, head_of(wanted).tolist(), strict=True)
            if head in places
        }
        found: dict[bytes, Entry] = {}
        while waiting:
            by_group: defaultdict[tuple[bool, str, int], list[bytes]] = defaultdict(list)
            for key, where in waiting.items():
                by_group[where[0][:3]].append(key)
            for group, asked in by_group.items():
                entries = self.view.entries(*group, [waiting[key][0].row for key in asked])
                pairs = zip(asked, entries, strict=True)
                found.update((key, entry) for key, entry in pairs if entry.key == key)
            # That row has another key with the same head: go on to the next position.
            rest = ((key, where[1:]) for key, where in waiting.items() if key not in found)
            waiting = {key: where for key, where in rest if where}
        return found


class Payments:
    """Sums what a log has paid for, while others write it; reads only what it has not yet seen."""

    def __init__(self, folder: Path) -> None:
        """Bind the folder, which need not exist yet."""
        self.folder = folder
        self._parts: dict[str, tuple[int, float]] = {}
        self._journals: dict[str, tuple[int, float, int]] = {}

    def total(self) -> tuple[int, float]:
        """The tokens and US dollars of all answers until now."""
        while True:
            listing = list_log(self.folder)
            try:
                self._parts = {name: self._sealed(name) for name in listing.parts}
                self._journals = {name: self._written(name) for name in listing.journals}
            except (FileNotFoundError, DamagedError):  # sealed or merged while it was read
                if listing == list_log(self.folder):
                    raise
                continue
            sums = [*self._parts.values(), *(paid[:2] for paid in self._journals.values())]
            return sum(tokens for tokens, _ in sums), math.fsum(usd for _, usd in sums)

    def _sealed(self, name: str) -> tuple[int, float]:
        if name in self._parts:
            return self._parts[name]
        receipt = read_receipt(self.folder, name)
        return receipt.tokens_in + receipt.tokens_out, receipt.usd

    def _written(self, name: str) -> tuple[int, float, int]:
        """The tokens and US dollars of a journal's lines, and the offset after them."""
        tokens, usd, offset = self._journals.get(name, (0, 0.0, 0))
        entries, offset = read_journal(self.folder / journal_file(name), offset)
        tokens += sum(entry.tokens_in + entry.tokens_out for entry in entries)
        return tokens, usd + math.fsum(entry.usd for entry in entries), offset


def _sum(rows: pa.Table, name: str) -> int:
    return int(pc.sum(rows[name]).as_py() or 0)
