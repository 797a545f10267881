"""The completions log: cache, checkpoint and receipt of every answer that was paid for."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.engine.log.entry import KEY_BYTES, Entry
from srrag.engine.log.listing import list_log
from srrag.engine.log.reader import LogReader, head_of
from srrag.engine.log.recover import forget, mend, recover
from srrag.engine.log.verify import COUNTED, damage
from srrag.storage.atomic_write import keep_private
from srrag.storage.mirror import shown, store_at
from srrag.storage.writer_lock import file_lock


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


def _sum(rows: pa.Table, name: str) -> int:
    return int(pc.sum(rows[name]).as_py() or 0)
