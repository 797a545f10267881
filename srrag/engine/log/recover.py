"""Recovers a completions log, for the run that holds its lock.

It first finishes interrupted work, then seals journals without a writer and merges parts if there
are many. After a kill, run it again.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from srrag.engine.log.journal import is_written, read_journal
from srrag.engine.log.listing import (
    BASE_CHARS,
    LogListingReader,
    faults_file,
    journal_file,
    names_in,
    read_receipt,
    receipt_file,
)
from srrag.engine.log.parts import remove, replace, seal

MAX_PARTS = 1000
WHOLE_ROWS = 1_000_000
_ABANDONED_INDEX_S = 3600.0
_TAKING_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Counts of a recovery: journals sealed, journals left to their writers, parts merged."""

    sealed: int
    left: int
    merged: int


def recover(folder: Path, settle_s: float, max_parts: int = MAX_PARTS) -> Recovery:
    """Finish interrupted work, seal journals without writer, merge parts above `max_parts`."""
    finish(folder, settle_s)
    sealed = left = 0
    for name in LogListingReader(folder).now().journals:
        path = folder / journal_file(name)
        if is_written(path, settle_s):
            left += 1
        else:
            seal(folder, name, read_journal(path)[0])
            sealed += 1
    return Recovery(sealed=sealed, left=left, merged=compact(folder, max_parts))


def finish(folder: Path, settle_s: float) -> None:
    """Delete invalid files: sealed journals, replaced parts and half-written files."""
    # List receipts first, so that a journal that is sealed meanwhile is in the later listing.
    receipts = {path.name[len("part-") : -len(".json")] for path in folder.glob("part-*.json")}
    parts, faults, journals = names_in(folder)
    for name in parts & journals:
        (folder / journal_file(name)).unlink(missing_ok=True)
    for name in parts:
        if len(name) > BASE_CHARS:
            for old in read_receipt(folder, name).replaces:
                remove(folder, old)
    for name in (faults | receipts) - parts - journals:
        for file in (faults_file(name), receipt_file(name)):
            (folder / file).unlink(missing_ok=True)
    now = time.time()
    waits = ((".part-*", settle_s), (".faults-*", settle_s), (".lock-*", _TAKING_S))
    for pattern, age_s in waits:
        for path in folder.glob(pattern):
            if now - path.stat().st_mtime >= age_s:
                path.unlink(missing_ok=True)
    for path in folder.glob(".index-*"):
        if now - path.stat().st_mtime >= _ABANDONED_INDEX_S:
            shutil.rmtree(path, ignore_errors=True)


def compact(folder: Path, max_parts: int = MAX_PARTS, whole_rows: int = WHOLE_ROWS) -> int:
    """Merge neighbouring parts into parts of `whole_rows` rows, if there are over `max_parts`.

    It stops at the first journal, whose rows must keep their place, and skips parts that are full
    already, so each row is rewritten a bounded number of times. Returns the number of merged
    parts.
    """
    standing = LogListingReader(folder)
    listing = standing.now()
    if len(listing.parts) <= max_parts:
        return 0
    runs: list[list[str]] = [[]]
    rows = 0
    for name in listing.parts:
        if listing.journals and name > listing.journals[0]:
            break
        size = standing.receipt(name).rows
        if size >= whole_rows or rows >= whole_rows:
            runs.append([])
            rows = 0
        if size < whole_rows:
            runs[-1].append(name)
            rows += size
    merged = [run for run in runs if len(run) > 1]
    for run in merged:
        replace(folder, run)
    return sum(len(run) for run in merged)


def forget(folder: Path, drop: frozenset[bytes], parts: frozenset[str]) -> int:
    """Rewrite these parts, and all journals, without the rows of some keys.

    Returns the number of removed rows. Raises ValueError that names a journal in use by a writer.
    """
    finish(folder, settle_s=0)
    standing = LogListingReader(folder)
    listing = standing.now()
    gone = 0
    for name in listing.journals:
        path = folder / journal_file(name)
        if is_written(path, settle_s=0):
            raise ValueError(f"{path} is being written; stop the run, then forget")
        entries = read_journal(path)[0]
        kept = [entry for entry in entries if entry.key not in drop]
        gone += len(entries) - len(kept)
        seal(folder, name, kept)
    for name in sorted(parts.intersection(listing.parts)):
        rows = standing.receipt(name).rows
        gone += rows - replace(folder, [name], drop).rows
    for path in folder.glob("index-*"):
        shutil.rmtree(path, ignore_errors=True)
    return gone
