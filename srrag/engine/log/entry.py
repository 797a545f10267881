"""One row of the completions log: the answer under a key, and its cost."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pydantic

from srrag.core.schema import non_null
from srrag.storage.manifest import CURE, DamagedError

KEY_BYTES = 16
GROUP_ROWS = 2000
COSTS = ("tokens_in", "tokens_out", "usd")
_TEXTS = ("key", "text", "fault", "detail", "task", "engine")

ENTRY = non_null(
    ("key", pa.binary(KEY_BYTES)),
    "text fault detail tokens_in:long tokens_out:long usd:double retries:long seconds:double task",
    "engine",
)


@dataclass(frozen=True)
class Entry:
    """A completion, or a fault (`fault` is its kind, "" for none).

    `key` has 16 bytes. `task` is the name of the answer's schema, `engine` the engine's name.
    A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD in `text` and `detail`, so that
    the log returns exactly what the entry holds.
    """

    key: bytes
    text: str = ""
    fault: str = ""
    detail: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    retries: int = 0
    seconds: float = 0.0
    task: str = ""
    engine: str = ""

    def __post_init__(self) -> None:
        """Replace lone surrogates; raises ValueError for a key that is not 16 bytes long."""
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"the key of a completion has {KEY_BYTES} bytes, not {len(self.key)}")
        for name in ("text", "detail"):
            object.__setattr__(self, name, _writable(getattr(self, name)))

    def line(self) -> bytes:
        """The entry as one line of JSON, with its newline."""
        values = asdict(self) | {"key": self.key.hex()}
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Entry:
        """Parse what `line` returns; raises ValueError for anything else."""
        values = json.loads(line.decode())
        if not isinstance(values, dict) or values.keys() != cls.__dataclass_fields__.keys():
            raise ValueError("not an entry")
        for name, value in values.items():
            if isinstance(value, str) != (name in _TEXTS) or isinstance(value, bool | list | dict):
                raise ValueError(f"{name} is not what it should be")
        return cls(**values | {"key": bytes.fromhex(values["key"])})


def _writable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def entries_to_tables(entries: Sequence[Entry]) -> Iterator[pa.Table]:
    """Yield tables of the schema ENTRY, sorted by key, of at most 2,000 rows each.

    Entries with equal keys keep their order.
    """
    for start in range(0, len(entries), GROUP_ROWS):
        rows = sorted(entries[start : start + GROUP_ROWS], key=lambda entry: entry.key)
        columns: dict[str, list[Any]] = {
            name: [getattr(row, name) for row in rows] for name in ENTRY.names
        }
        yield pa.table(columns, schema=ENTRY)


def table_to_entries(table: pa.Table) -> list[Entry]:
    """The rows of a table with the columns of ENTRY as entries."""
    columns = [table.column(name).to_pylist() for name in ENTRY.names]
    return [Entry(*row) for row in zip(*columns, strict=True)]


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
