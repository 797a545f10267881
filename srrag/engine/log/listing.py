"""The valid files of a completions log: their names, receipts and listing.

    journal-<name>.jsonl     lines of a writer, until they are sealed under the same name
    part-<name>.parquet      completions, sorted by key within each row group
    faults-<name>.parquet    faults, if there are any
    part-<name>.json         the receipt of both: counts, hashes, and the names they replace

Faults and receipt are written first; a part is valid once it is renamed into place. From then on
the journal of the same name, and the parts that the receipt replaces, are invalid and get deleted.
So a kill between any two steps loses no row and counts none twice.

Names sort by time. Of several rows with one key, the first in the order of names counts.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pydantic

from srrag.storage.manifest import CURE, DamagedError

PART, FAULTS, JOURNAL = "part-", "faults-", "journal-"
BASE_CHARS = 15 + 1 + 32


@dataclass(frozen=True, kw_only=True)
class SealReceipt:
    """Contents of a sealed name: completions, faults by kind, sums over both, sha256 by file."""

    completions: int
    faults: dict[str, int]
    tokens_in: int
    tokens_out: int
    usd: float
    sha256: dict[str, str]
    replaces: list[str]

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    @property
    def rows(self) -> int:
        """Number of completions and faults together."""
        return self.completions + sum(self.faults.values())


_RECEIPT = pydantic.TypeAdapter(SealReceipt)


@dataclass(frozen=True)
class Listing:
    """The names of valid parts, of those parts with faults, and of valid journals; sorted."""

    parts: tuple[str, ...] = ()
    faults: frozenset[str] = frozenset()
    journals: tuple[str, ...] = ()

    def files(self) -> Iterator[str]:
        """The names of the sealed files."""
        for name in self.parts:
            yield part_file(name)
            if name in self.faults:
                yield faults_file(name)


def new_name(now_ms: int, after: str = "") -> str:
    """Make a journal's name that sorts by time, and after `after` even if the clock went back."""
    if after:
        now_ms = max(now_ms, int(after[:15]) + 1)
    return f"{now_ms:015d}-{uuid.uuid4().hex}"


def next_name(name: str) -> str:
    """The name for the replacement of a part, which sorts directly after it."""
    generation = int(name[BASE_CHARS + 1 :] or 0) + 1
    return f"{name[:BASE_CHARS]}-{generation:06d}"


def part_file(name: str) -> str:
    """The file of a part's completions."""
    return f"{PART}{name}.parquet"


def faults_file(name: str) -> str:
    """The file of a part's faults."""
    return f"{FAULTS}{name}.parquet"


def receipt_file(name: str) -> str:
    """The file of a part's receipt."""
    return f"{PART}{name}.json"


def journal_file(name: str) -> str:
    """The file of a journal."""
    return f"{JOURNAL}{name}.jsonl"


def names_in(folder: Path) -> tuple[set[str], set[str], set[str]]:
    """The names of all parts, faults and journals in the folder, valid or not.

    Scans until two scans agree, since one scan can miss a file that is renamed meanwhile.
    """
    last: set[str] | None = None
    while (files := _scan(folder)) != last:
        last = files
    ends = ((PART, ".parquet"), (FAULTS, ".parquet"), (JOURNAL, ".jsonl"))
    parts, faults, journals = (
        {file[len(a) : -len(z)] for file in files if file.startswith(a) and file.endswith(z)}
        for a, z in ends
    )
    return parts, faults, journals


def _scan(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 (names alone, for many parts)
    except FileNotFoundError:
        return set()


def list_log(folder: Path) -> Listing:
    """List the files that are valid at this moment; raises ValueError for a bad receipt."""
    while True:
        parts, faults, journals = names_in(folder)
        merged = [name for name in parts if len(name) > BASE_CHARS]
        try:
            replaced = {old for name in merged for old in read_receipt(folder, name).replaces}
        except ValueError:
            if parts == names_in(folder)[0]:
                raise
            continue  # the part was replaced meanwhile
        return Listing(
            parts=tuple(sorted(parts - replaced)),
            faults=frozenset(faults & parts - replaced),
            journals=tuple(sorted(journals - parts)),
        )


def read_receipt(folder: Path, name: str) -> SealReceipt:
    """Read a receipt; raises DamagedError that names the file if it is missing or invalid."""
    path = folder / receipt_file(name)
    try:
        return _RECEIPT.validate_json(path.read_bytes(), strict=True)
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing; its part cannot be counted; {CURE}") from None
    except pydantic.ValidationError as error:
        told = error.errors()[0]["msg"]
        raise DamagedError(f"{path}: not a receipt ({told}); {CURE}") from error
