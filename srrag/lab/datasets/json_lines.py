"""JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def rows(
    path: Path, what: str = "gold of a question", keys: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object of each line that is not blank, with file:line.

    Raises ValueError that names the line which is not `what` it should be, or lacks one of `keys`.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    place = f"{path}:{number}"
                    yield place, _row(place, line, what, keys)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error})") from error


def _row(place: str, line: str, what: str, keys: Sequence[str]) -> dict[str, Any]:
    try:
        row = json.loads(line)
        json.dumps(row, ensure_ascii=False).encode()  # an escape may stand for half a character
    except ValueError as error:
        raise ValueError(f"{place}: not {what} ({error})") from error
    if not isinstance(row, dict):
        raise ValueError(f"{place}: not {what} (no JSON object)")
    if missing := [key for key in keys if key not in row]:
        raise ValueError(f"{place}: not {what} ({missing[0]!r} is missing)")
    return row
