"""One row of the completions log: the answer under a key, and its cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

KEY_BYTES = 16
GROUP_ROWS = 2000
COSTS = ("tokens_in", "tokens_out", "usd")
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
