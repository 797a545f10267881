"""Recovers a completions log, for the run that holds its lock.

It first finishes interrupted work, then seals journals without a writer and merges parts if there
are many. After a kill, run it again.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from srrag.core.spec import file_sha256
from srrag.engine.log.entry import (
    BASE_CHARS,
    COSTS,
    Entry,
    SealReceipt,
    faults_file,
    journal_file,
    list_log,
    names_in,
    part_file,
    read_receipt,
    receipt_file,
)
from srrag.engine.log.journal import (
    is_written,
    open_part,
    read_group,
    read_groups,
    read_journal,
    remove,
    replace,
    seal,
    write_part,
)

COUNTED = ("key", "fault", *COSTS)
"""The columns by which rows are counted."""


def damage(folder: Path) -> Iterator[str]:
    """Yield one line per file that is missing or damaged, or whose rows differ from its receipt."""
    try:
        listing = list_log(folder)
    except ValueError as error:
        yield str(error)
        return
    for name in listing.parts:
        yield from damaged_part(folder, name)
    for name in lost(folder):
        yield f"{folder / part_file(name)} is missing; what it held is asked for again"
    for name in listing.journals:
        try:
            read_journal(folder / journal_file(name))
        except ValueError as error:
            yield str(error)


def lost(folder: Path) -> Iterator[str]:
    """Yield the names of lost parts: only the receipt is left, and no kill explains that."""
    parts, _, journals = names_in(folder)
    going = {old for name in parts for old in _replaced(folder, name)}
    for path in sorted(folder.glob("part-*.json")):
        name = path.name[len("part-") : -len(".json")]
        if name in parts | journals | going:
            continue
        if not parts.intersection(_replaced(folder, name)):
            yield name


def _replaced(folder: Path, name: str) -> list[str]:
    try:
        return read_receipt(folder, name).replaces
    except ValueError:
        return []  # reported when the part itself is checked


def damaged_part(folder: Path, name: str) -> Iterator[str]:
    """Yield one line per difference between a part's files and its receipt."""
    try:
        yield from _differences(folder, name, read_receipt(folder, name))
    except ValueError as error:
        yield str(error)


def _differences(folder: Path, name: str, receipt: SealReceipt) -> Iterator[str]:
    expected = {part_file(name)} | ({faults_file(name)} if receipt.faults else set())
    if receipt.sha256.keys() != expected:
        yield f"{folder / part_file(name)}: its receipt names other files"
        return
    whole = True
    for file, sha256 in receipt.sha256.items():
        if not (folder / file).exists():
            yield f"{folder / file} is missing"
            whole = False
        elif file_sha256(folder / file) != sha256:
            yield f"{folder / file} is not what was sealed (sha256 differs)"
            whole = False
    if whole:
        yield from _miscounted(folder, name, receipt)


def _miscounted(folder: Path, name: str, receipt: SealReceipt) -> Iterator[str]:
    kinds, sums = Counter[str](), Counter[str]()
    for file in receipt.sha256:
        path = folder / file
        for group, table in enumerate(read_groups(path, COUNTED)):
            keys = table["key"].to_pylist()
            if keys != sorted(keys):
                yield f"{path}: row group {group} is not sorted by key"
            faults = table["fault"].to_pylist()
            if any(bool(fault) != (file == faults_file(name)) for fault in faults):
                yield f"{path}: row group {group} mixes completions and faults"
            kinds.update(faults)
            for column in COSTS:
                sums[column] += sum(table[column].to_pylist())
    completions = kinds.pop("", 0)
    same = (completions, dict(kinds), sums["tokens_in"], sums["tokens_out"]) == (
        receipt.completions,
        receipt.faults,
        receipt.tokens_in,
        receipt.tokens_out,
    )
    if not same or not math.isclose(sums["usd"], receipt.usd, abs_tol=1e-9):
        yield f"{folder / part_file(name)}: its receipt counts other rows"


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
