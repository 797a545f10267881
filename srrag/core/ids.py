"""Content-hashed ids: the same content has the same id in every run and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_BLOCK_BYTES = 1 << 20


def content_id(*parts: str) -> str:
    """Return the 16-byte blake2b of length-prefixed parts as 32 hex digits.

    The length prefix keeps ("ab", "c") and ("a", "bc") apart.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def segment_id(row_ids: Iterable[str]) -> str:
    """Name a segment of rows by its content: the hash of its row ids in order."""
    return content_id(*row_ids)


def evidence_id(kind: str, unit_id: str, text: str) -> str:
    """Return the id of a piece of evidence: its kind, unit and text.

    The id of a window is a hash of its document and span, so a window needs no text.
    """
    return content_id(kind, unit_id) if kind == "window" else content_id(kind, unit_id, text)


def question_id(unit_id: str) -> str:
    """Return the id of the question written from a window; it identifies the window."""
    return content_id("question", unit_id)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file as hex, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
