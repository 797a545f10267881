"""One line of the completions log: what was answered under a key, and what it took."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

KEY_BYTES = 16
GROUP_ROWS = 2000
_TEXTS = ("key", "text", "fault", "detail", "task", "engine")

ENTRY = pa.schema(
    [
        pa.field("key", pa.binary(KEY_BYTES), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("fault", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("tokens_in", pa.int64(), nullable=False),
        pa.field("tokens_out", pa.int64(), nullable=False),
        pa.field("usd", pa.float64(), nullable=False),
        pa.field("retries", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("engine", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Entry:
    """A completion, or the fault that came instead of one (`fault` is its kind, "" for none).

    `key` has 16 bytes. `task` is the name of the answer's schema, `engine` the engine's name.
    Half a surrogate pair, which no file can hold, becomes U+FFFD in `text` and `detail`: what
    an entry holds is what the log will give back.
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
        """Check the key and make the texts writable."""
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"the key of a completion has {KEY_BYTES} bytes, not {len(self.key)}")
        for name in ("text", "detail"):
            object.__setattr__(self, name, _writable(getattr(self, name)))

    def line(self) -> bytes:
        """One line of JSON, newline included."""
        values = asdict(self) | {"key": self.key.hex()}
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Entry:
        """The inverse of `line`; raises ValueError for what is not such a line."""
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
    """Entries as key-sorted tables of at most 2,000 rows; equal keys keep their order."""
    for start in range(0, len(entries), GROUP_ROWS):
        rows = sorted(entries[start : start + GROUP_ROWS], key=lambda entry: entry.key)
        columns: dict[str, list[Any]] = {
            name: [getattr(row, name) for row in rows] for name in ENTRY.names
        }
        yield pa.table(columns, schema=ENTRY)


def table_to_entries(table: pa.Table) -> list[Entry]:
    """The rows of a table as entries."""
    columns = [table.column(name).to_pylist() for name in ENTRY.names]
    return [Entry(*row) for row in zip(*columns, strict=True)]
