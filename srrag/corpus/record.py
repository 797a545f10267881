"""Raw records: the documents and refusals that a reader passes to the workers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from srrag.core.ids import content_id
from srrag.core.schema import RAW

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


def unique(records: Iterable[RawRecord], *, copies: bool = True) -> Iterator[RawRecord]:
    """Keep the first record of each `source_id`; later ones become "duplicate_id" refusals.

    Equal content under different ids is kept, or without `copies` becomes a "duplicate_content"
    refusal. Memory grows by one entry (about 0.3 kB) for each id, and one for each content.
    """
    first: dict[str, str] = {}
    contents: dict[bytes, str] = {}
    for record in records:
        if record.reason:
            yield record
            continue
        if not copies and record.body:
            digest = hashlib.sha256(record.body).digest()
            same = contents.setdefault(digest, record.source)
            if same != record.source:
                detail = f"{record.source}: the same bytes as {same}"
                yield replace(record, body=b"", reason="duplicate_content", detail=detail)
                continue
        place = first.setdefault(record.source_id, record.source)
        if place == record.source:
            yield record
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
