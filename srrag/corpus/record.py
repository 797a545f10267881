"""What readers share: where a corpus lies, its lines, and raw records for the workers."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.errors import UsageError
from srrag.core.schema import RAW
from srrag.core.spec import content_id

_PACKAGE = "pkg://"


def resolve(path: str) -> Path:
    """Return the real path of `path`, which may be "pkg://package/folder".

    Raises UsageError that names the path if nothing is there.
    """
    if path.startswith(_PACKAGE):
        package, _, rest = path.removeprefix(_PACKAGE).partition("/")
        try:
            found = Path(str(importlib.resources.files(package))) / rest
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: no package {package!r} to read from") from error
    else:
        found = Path(path)
    if not found.exists():
        raise UsageError(f"{path}: no such file or folder")
    return found.resolve()


def folder(path: str) -> Path:
    """Return the folder that `path` names; raises UsageError if it is not a folder."""
    found = resolve(path)
    if not found.is_dir():
        raise UsageError(f"{path}: not a folder")
    return found


def walk(root: Path) -> Iterator[Path]:
    """Yield the entries below a folder in sorted order, without hidden ones.

    It does not enter linked folders. For a link that leads out of the root it yields the link, so
    that the reader can refuse it by name.
    """
    for current, folders, files in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(current)
        links = [n for n in folders if (here / n).is_symlink() and not is_inside(here / n, root)]
        for name in sorted([*files, *links]):
            if not name.startswith("."):
                yield here / name


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path, links followed, lies within the root."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a loop of links
        return False


def relative_name(path: Path, root: Path) -> str:
    """The path below the root with "/" between parts, safe to store as UTF-8."""
    name = path.name if path == root else path.relative_to(root).as_posix()
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


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


_MAX_ID_CHARS = 500


@dataclass(frozen=True)
class RawRecord:
    """One document as its source holds it, or, if `reason` is set, one refusal.

    `source` is the path relative to the reader's folder (with ":LINE" for line formats),
    `source_id` the id given by the source.
    """

    source: str
    source_id: str
    format: str
    body: bytes = b""
    reason: str = ""
    detail: str = ""

    @property
    def raw_id(self) -> str:
        """Return the hash of the content; a refusal, which has no content, hashes its place too."""
        body = hashlib.sha256(self.body).hexdigest()
        if self.reason:
            return content_id(self.source_id, body, self.source, self.reason)
        return content_id(self.source_id, body)


def refusal(source: str, format: str, reason: str, detail: str, source_id: str = "") -> RawRecord:
    """Make a record that says why a piece of input was not read."""
    return RawRecord(source, source_id or source, format, b"", reason, detail)


def plain_id(value: object) -> str:
    """Return an id that can be stored: stripped, without characters that UTF-8 cannot encode."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    text = str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(char for char in text if char.isprintable()).strip()[:_MAX_ID_CHARS]


def unique(
    records: Iterable[RawRecord],
    *,
    copies: bool = True,
    notice: Callable[[RawRecord], RawRecord | None] = lambda _: None,
) -> Iterator[RawRecord]:
    """Keep the first record of each `source_id`; later ones become "duplicate_id" refusals.

    `notice` is asked of each record, and what it makes of one takes the place of its refusal.
    Equal content under different ids is kept, or without `copies` becomes a "duplicate_content"
    refusal. Memory grows by one entry (about 0.3 kB) for each id, and one for each content.
    """
    first: dict[str, str] = {}
    contents: dict[bytes, str] = {}
    for record in records:
        if record.reason:
            yield notice(record) or replace(record, body=b"")
            continue
        if not copies and record.body:
            digest = hashlib.sha256(record.body).digest()
            same = contents.setdefault(digest, record.source)
            if same != record.source:
                detail = f"{record.source}: the same bytes as {same}"
                yield replace(record, body=b"", reason="duplicate_content", detail=detail)
                continue
        said = notice(record)
        place = first.setdefault(record.source_id, record.source)
        if place == record.source:
            yield record
            continue
        if said is not None:
            yield said
            continue
        detail = f"{record.source}: id {record.source_id!r} was first seen in {place}"
        yield replace(record, body=b"", reason="duplicate_id", detail=detail)


def raw_table(records: Sequence[RawRecord]) -> pa.Table:
    """Build the RAW table of some records."""
    rows = [
        {
            "raw_id": record.raw_id,
            "source": record.source,
            "source_id": record.source_id,
            "format": record.format,
            "body": record.body,
            "reject": {"stage": "read", "reason": record.reason, "detail": record.detail}
            if record.reason
            else None,
        }
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=RAW)
