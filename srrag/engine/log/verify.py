"""Verifies a completions log: every file matches its receipt, and every line can be read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from srrag.core.ids import file_sha256
from srrag.engine.log.entry import COSTS
from srrag.engine.log.journal import read_journal
from srrag.engine.log.listing import (
    SealReceipt,
    faults_file,
    journal_file,
    list_log,
    names_in,
    part_file,
    read_receipt,
)
from srrag.engine.log.parts import read_groups

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
