"""Turn raw records into documents: parse by format, clean, read the metadata."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.schema import DOCUMENTS
from srrag.core.step import Function, Place, Step
from srrag.corpus.clean import tidy_document, tidy_inline
from srrag.corpus.conditions import condition_code
from srrag.corpus.paper_ids import plain_ids
from srrag.corpus.parse_cnxml import parse_cnxml
from srrag.corpus.parse_docx import parse_docx
from srrag.corpus.parse_html import parse_html
from srrag.corpus.parse_jats import parse_jats
from srrag.corpus.parse_json import parse_beir, parse_json
from srrag.corpus.parse_pdf import parse_pdf, parse_pdf_docling
from srrag.corpus.parse_pubmed import parse_pubmed
from srrag.corpus.parse_text import parse_markdown, parse_plain
from srrag.corpus.parsed import Metadata, Parsed, Unparsable

Parser = Callable[[bytes], Parsed]

PARSERS: Mapping[str, Parser] = {
    "markdown": parse_markdown,
    "text": parse_plain,
    "html": parse_html,
    "jats": parse_jats,
    "pdf": parse_pdf,
    "docx": parse_docx,
    "json": parse_json,
    "cnxml": parse_cnxml,
    "beir": parse_beir,
    "pubmed": parse_pubmed,
}
PDF_PARSERS: Mapping[str, Parser] = {"text": parse_pdf, "docling": parse_pdf_docling}


@dataclass(frozen=True, kw_only=True)
class ParseDocuments(Step):
    """RAW to DOCUMENTS, one row out for each row in; unreadable records become rejects.

    `doc_id` is the record's `raw_id`, so every document joins with its record. The grade columns
    stay empty until GradeDocuments; the metadata hold a given grade until then. `pdf` is "text" for
    the text layer of PDF files or "docling" for Docling, the extra `pdf`.
    """

    pdf: str = "text"

    version: ClassVar[int] = 7
    reads: ClassVar[tuple[str, ...]] = ("raw_id", "source", "source_id", "format", "body", "reject")
    writes: ClassVar[pa.Schema] = DOCUMENTS

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown way to read PDF files."""
        if self.pdf not in PDF_PARSERS:
            raise ValueError(f"pdf={self.pdf}: {' or '.join(PDF_PARSERS)}")

    def open(self, at: Place) -> Function:
        """Return the parser; raises ValueError if Docling is asked for and not installed."""
        if self.pdf == "docling" and importlib.util.find_spec("docling") is None:
            raise ValueError("pdf=docling: pip install srrag[pdf]")
        return partial(parse_documents, parsers={**PARSERS, "pdf": PDF_PARSERS[self.pdf]})


def parse_documents(raw: pa.Table, parsers: Mapping[str, Parser] = PARSERS) -> pa.Table:
    """Parse every row of a RAW table with the parser of its format."""
    rows = [_document(row, parsers) for row in raw.to_pylist()]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def _document(row: Mapping[str, Any], parsers: Mapping[str, Parser]) -> dict[str, Any]:
    if row["reject"] is not None:
        return _row(row, reject=row["reject"])
    try:
        parser = parsers.get(row["format"])
        if parser is None:
            raise Unparsable("unsupported_format", f"no parser for {row['format']!r}")
        parsed = parser(row["body"])
        tidy = tidy_inline if row["format"] == "beir" else tidy_document
        text = tidy(parsed.text)
        if not any(char.isalnum() for char in text):
            raise Unparsable("no_text", "nothing is left to index")
    except Unparsable as error:
        detail = f"{row['source']}: {error.detail}"
        return _row(row, reject={"stage": "parse", "reason": error.reason, "detail": detail})
    title = tidy_inline(parsed.title)
    if not title and row["format"] == "text":
        title = tidy_inline(PurePosixPath(row["source"]).stem.replace("_", " "))
    return _row(row, title=title, text=text, metadata=parsed.metadata)


def _row(
    raw: Mapping[str, Any],
    title: str = "",
    text: str = "",
    metadata: Metadata | None = None,
    reject: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    kept = {key: _tidied(value) for key, value in plain_ids(metadata or {}).items() if value != ""}
    kept.pop("id", None)  # the reader has stored it as source_id
    year = kept.pop("year", 0)
    condition = str(kept.pop("condition", ""))
    code = condition_code(condition)
    if condition and not code:
        kept["condition_note"] = f"unknown condition {condition[:100]!r}"
    return {
        "doc_id": raw["raw_id"],
        "source": raw["source"],
        "source_id": raw["source_id"],
        "title": title,
        "text": text,
        "grade": "",
        "grade_source": "",
        "grade_evidence": "",
        "year": year if isinstance(year, int) else 0,
        "pmid": str(kept.pop("pmid", "")),
        "condition": code,
        "metadata": json.dumps(kept, sort_keys=True, ensure_ascii=False),
        "reject": reject,
    }


def _tidied(value: str | int | list[str]) -> str | int | list[str]:
    if isinstance(value, int):
        return value
    if isinstance(value, list):
        return [tidy_inline(item) for item in value]
    return tidy_inline(value)
