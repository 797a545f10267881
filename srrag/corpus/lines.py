"""Read a file of JSON lines, one record a line, with a maximum length for each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Line:
    """One line: its number from 1, its bytes, and its object or the reason why it has none."""

    number: int
    body: bytes
    record: dict[str, Any]
    reason: str = ""
    detail: str = ""


def json_lines(path: Path, max_line_bytes: int) -> Iterator[Line]:
    """Yield the non-blank lines of a file; broken and over-long ones carry a reason."""
    number = 0
    with path.open("rb") as stream:
        while chunk := stream.readline(max_line_bytes + 1):
            number += 1
            if len(chunk) > max_line_bytes and not chunk.endswith(b"\n"):
                while chunk and not chunk.endswith(b"\n"):
                    chunk = stream.readline(max_line_bytes + 1)
                yield Line(number, b"", {}, "too_large", f"over {max_line_bytes} bytes")
                continue
            body = (chunk.removeprefix(_BOM) if number == 1 else chunk).strip()
            if body:
                yield _parsed(number, body)


def _parsed(number: int, body: bytes) -> Line:
    try:
        record = json.loads(body)
    except UnicodeDecodeError as error:
        return Line(number, b"", {}, "broken_json", f"not UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        return Line(number, b"", {}, "broken_json", f"{error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:
        return Line(number, b"", {}, "broken_json", str(error).splitlines()[0])
    if not isinstance(record, dict):
        return Line(number, b"", {}, "broken_json", "the line is no JSON object")
    return Line(number, body, record)
