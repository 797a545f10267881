"""Recovers a completions log, for the run that holds its lock.

It first finishes interrupted work, then seals journals without a writer and merges parts if there
are many. After a kill, run it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from srrag.engine.log.entry import Entry
from srrag.engine.log.journal import is_written, read_journal
from srrag.engine.log.listing import (
    BASE_CHARS,
    faults_file,
    journal_file,
    list_log,
    names_in,
    part_file,
    read_receipt,
    receipt_file,
)
from srrag.engine.log.parts import open_part, read_group, remove, replace, seal, write_part
from srrag.engine.log.verify import damaged_part, lost


def mend(folder: Path) -> Iterator[str]:
    """Rewrite damaged parts and journals with their readable rows; yields one line for each.

    Only for the run that holds the log's lock. After a kill, run it again.
    """
    parts, _, journals = names_in(folder)
    for name in sorted(parts):
        if problem := next(damaged_part(folder, name), ""):
            yield f"{problem.partition(';')[0]}: {_rewritten(folder, name, parts)}"
    for name in list(lost(folder)):
        remove(folder, name)
        yield f"{folder / part_file(name)} is missing: what it held is asked for again"
    for name in sorted(journals - parts):
        path = folder / journal_file(name)
        entries, bad = _readable(path)
        if bad:
            seal(folder, name, entries)
            yield f"{path}: {bad} damaged lines taken out, {len(entries)} answers kept"


def _rewritten(folder: Path, name: str, parts: set[str]) -> str:
    """Rewrite a part from its readable row groups; the parts that it replaced stay replaced."""
    good, bad = (_groups(folder / file) for file in (part_file(name), faults_file(name)))
    rows = sum(map(len, [*good, *bad]))
    try:
        receipt = read_receipt(folder, name)
        replaces, told = receipt.replaces, f"{max(0, receipt.rows - rows)} answers lost"
    except ValueError:
        former = (each for each in parts if each[:BASE_CHARS] == name[:BASE_CHARS] and each < name)
        replaces, told = sorted(former), "how many were lost is not known"
    if rows:
        write_part(folder, name, iter(good), iter(bad), replaces)
    else:
        for each in (*replaces, name):
            remove(folder, each)
    return f"written again with {rows} answers, {told}; they are asked for again"


def _groups(path: Path) -> list[pa.Table]:
    """The readable row groups of a file."""
    if not path.exists():
        return []
    tables = []
    try:
        with open_part(path) as file:
            for group in range(file.num_row_groups):
                try:
                    tables.append(read_group(file, path, group))
                except ValueError:
                    continue
    except ValueError:
        return []
    return tables


def _readable(path: Path) -> tuple[list[Entry], int]:
    """The entries of the readable complete lines, and the number of unreadable ones."""
    entries, bad = [], 0
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            entries.append(Entry.of_line(line))
        except (ValueError, RecursionError):
            bad += 1
    return entries, bad


MAX_PARTS = 1000
WHOLE_ROWS = 1_000_000


def recover(folder: Path, settle_s: float, max_parts: int = MAX_PARTS) -> None:
    """Finish interrupted work, seal journals without writer, merge parts above `max_parts`."""
    finish(folder, settle_s)
    for name in list_log(folder).journals:
        path = folder / journal_file(name)
        if not is_written(path, settle_s):
            seal(folder, name, read_journal(path)[0])
    compact(folder, max_parts)


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
    for path in (*folder.glob(".part-*"), *folder.glob(".faults-*")):
        if now - path.stat().st_mtime >= settle_s:
            path.unlink(missing_ok=True)


def compact(folder: Path, max_parts: int = MAX_PARTS, whole_rows: int = WHOLE_ROWS) -> int:
    """Merge neighbouring parts into parts of `whole_rows` rows, if there are over `max_parts`.

    It stops at the first journal, whose rows must keep their place, and skips parts that are full
    already, so each row is rewritten a bounded number of times. Returns the number of merged
    parts.
    """
    listing = list_log(folder)
    if len(listing.parts) <= max_parts:
        return 0
    runs: list[list[str]] = [[]]
    rows = 0
    for name in listing.parts:
        if listing.journals and name > listing.journals[0]:
            break
        size = read_receipt(folder, name).rows
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
    listing = list_log(folder)
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
        rows = read_receipt(folder, name).rows
        gone += rows - replace(folder, [name], drop).rows
    return gone
