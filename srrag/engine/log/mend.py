"""Repairs a completions log: removes unreadable rows, whose prompts are then asked again.

Counts below 0 are put right.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from srrag.engine.log.entry import Entry, entries_to_tables, table_to_entries
from srrag.engine.log.index import index_file, join, load
from srrag.engine.log.journal import read_journal
from srrag.engine.log.listing import (
    BASE_CHARS,
    faults_file,
    journal_file,
    names_in,
    part_file,
    read_receipt,
)
from srrag.engine.log.parts import open_part, read_group, remove, seal, write_part
from srrag.engine.log.verify import costs_of, damaged_part, lost


def mend(folder: Path) -> Iterator[str]:
    """Rewrite damaged parts and journals with their readable rows; yields one line for each.

    Only for the run that holds the log's lock. After a kill, run it again.
    """
    parts, _, journals = names_in(folder)
    for name in sorted(parts):
        if problem := _problem(folder, name):
            yield f"{problem}: {_rewritten(folder, name, parts)}"
    for name in list(lost(folder)):
        remove(folder, name)
        yield f"{folder / part_file(name)} is missing: what it held is asked for again"
    for name in sorted(journals - parts):
        path = folder / journal_file(name)
        try:
            read_journal(path)
        except ValueError:
            entries, bad = _readable(path)
            seal(folder, name, entries)
            yield f"{path}: {bad} damaged lines taken out, {len(entries)} answers kept"
    yield from _indexes(folder)


def _problem(folder: Path, name: str) -> str | None:
    try:
        return next(damaged_part(folder, name, read_receipt(folder, name)), None)
    except ValueError as error:
        return str(error).partition(";")[0]


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
                    table = read_group(file, path, group)
                except ValueError:
                    continue
                if min(map(min, costs_of(table))) < 0:
                    (table,) = entries_to_tables(table_to_entries(table))
                tables.append(table)
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


def _indexes(folder: Path) -> Iterator[str]:
    """Delete a saved index that differs from a freshly built one."""
    parts, faults, _ = names_in(folder)
    files = {*map(part_file, parts), *map(faults_file, faults & parts)}
    kept = load(folder, frozenset(files))
    whole = len(list(folder.glob("index-*"))) <= bool(kept.files)
    if whole and kept.files:
        fresh = join([index_file(folder, file) for file in kept.files])
        same = (fresh.heads == kept.heads).all() if len(fresh) == len(kept) else False
        whole = bool(same and (fresh.rows == kept.rows).all())
    if not whole:
        for path in folder.glob("index-*"):
            shutil.rmtree(path)
        yield f"{folder}: its index did not fit the parts; removed, to be made again"
