"""Read the statements of raw records about the standing of papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.schema import NOTICES
from srrag.core.step import Function, Place, Step
from srrag.corpus.notices import Notice, jats_notices, may_speak, pubmed_notices
from srrag.corpus.parsed import Unparsable

_READERS: Mapping[str, Callable[[bytes], list[Notice]]] = {
    "pubmed": pubmed_notices,
    "jats": jats_notices,
}


@dataclass(frozen=True, kw_only=True)
class ReadNotices(Step):
    """RAW to NOTICES: a row for each statement of a PubMed or JATS record about a paper's standing.

    A notice without an abstract is no document, but its statement counts. A record that cannot be
    parsed says nothing here, since ParseDocuments rejects it.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("raw_id", "source_id", "format", "body", "reject")
    writes: ClassVar[pa.Schema] = NOTICES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Return the reader; it loads nothing."""
        return read_notices


def read_notices(raw: pa.Table) -> pa.Table:
    """Read the notices of a RAW table."""
    rows = [row for each in raw.to_pylist() for row in _rows(each)]
    return pa.Table.from_pylist(rows, schema=NOTICES)


def _rows(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    reader = _READERS.get(raw["format"])
    if raw["reject"] is not None or reader is None or not may_speak(raw["body"]):
        return
    try:
        found = reader(raw["body"])
    except Unparsable:
        return
    for notice in dict.fromkeys(found):
        yield {
            "doc_id": raw["raw_id"],
            "source_id": raw["source_id"],
            **vars(notice),
            "reject": None,
        }
