"""The completions log: cache, checkpoint and receipt of every answer that was paid for."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from srrag.engine.log.entry import Entry
from srrag.engine.log.index import head_of
from srrag.engine.log.listing import SealReceipt
from srrag.engine.log.reader import LogReader, RowPosition
from srrag.engine.log.recover import Recovery, forget, mend, recover
from srrag.engine.log.verify import damage, damaged_index


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

    It lists the folder at most every `refresh_s` seconds. It saves an index of more than
    `keep_rows` keys beside the log, where processes share it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        refresh_s: float = 1.0,
        keep_rows: int = 50_000,
        settle_s: float = 5.0,
    ) -> None:
        """Bind the folder, which need not exist yet.

        `recover` seals journals that nobody has written for `settle_s` seconds.
        """
        self.folder = folder
        self.refresh_s = refresh_s
        self.settle_s = settle_s
        self.view = LogReader(folder, keep_rows)
        self._looked = -np.inf
        self._lock = RLock()

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

    def recover(self) -> Recovery:
        """Clean up, seal and compact the log; only for the run that holds its lock."""
        return recover(self.folder, self.settle_s)

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
            self.view = LogReader(self.folder, self.view.keep_rows)
            self.refresh()
            return done

    def verify(self) -> Proof:
        """Read the whole log; returns the damage by file, or the totals if there is none."""
        with self._lock:
            problems = [*damage(self.folder)]
            if not problems:
                self.refresh()
                problems += damaged_index(self.view)
            return Proof(problems, None if problems else self.totals())

    def totals(self) -> Totals:
        """Counts and sums over all rows, from the receipts; the index finds repeated keys."""
        with self._lock:
            receipts = self._receipts()
            journals = self.view.journals.values()
            entries = [entry for journal in journals for entry in journal.entries]
            faults = Counter(entry.fault for entry in entries)
            completions = faults.pop("", 0) + sum(receipt.completions for receipt in receipts)
            for receipt in receipts:
                faults.update(receipt.faults)
            rows: list[SealReceipt | Entry] = [*receipts, *entries]
            extra = self._paid_twice()
            return Totals(
                completions=completions,
                faults=dict(faults.most_common()),
                tokens_in=sum(row.tokens_in for row in rows),
                tokens_out=sum(row.tokens_out for row in rows),
                usd=math.fsum(row.usd for row in rows),
                paid_twice=len(extra),
                paid_twice_tokens_in=sum(tokens for tokens, _ in extra),
                paid_twice_tokens_out=sum(tokens for _, tokens in extra),
            )

    def _receipts(self) -> list[SealReceipt]:
        while True:
            self.refresh()
            try:
                return [self.view.standing.receipt(name) for name in self.view.listing.parts]
            except ValueError:
                if self.view.listing == self.view.standing.now():
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

    def _paid_twice(self) -> list[tuple[int, int]]:
        """Tokens in and out of every row except the first of each key."""
        places = self.view.places(self.view.repeated())
        by_group: defaultdict[tuple[bool, str, int], list[RowPosition]] = defaultdict(list)
        for where in places.values():
            for place in where:
                by_group[place[:3]].append(place)
        paid: dict[RowPosition, tuple[bytes, int, int]] = {}
        for group, where in by_group.items():
            paid.update(
                zip(where, self.view.paid(*group, [place.row for place in where]), strict=True)
            )
        seen: set[bytes] = set()
        extra = []
        for _, (key, tokens_in, tokens_out) in sorted(paid.items()):
            if key in seen:
                extra.append((tokens_in, tokens_out))
            seen.add(key)
        return extra
