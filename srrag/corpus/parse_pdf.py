"""PDF files: their text layer through pdfminer.six, or the whole page through Docling."""

from __future__ import annotations

import importlib
import io
import re
from functools import cache
from typing import Any

from srrag.corpus.paper_ids import doi_of
from srrag.corpus.parse_text import markdown_parts
from srrag.corpus.parsed import Metadata, Parsed, Unparsable

_MAX_PAGES = 1_000
_MAX_FILE_BYTES = 50_000_000
_WRAPPED = re.compile(r"(10\.\d{4,9}/\S*[./-])\s(?=\d{5})")
"""A DOI that goes on in the next line; a year would have four digits."""
_FIRST_CHARS = 8_000


def parse_pdf(body: bytes) -> Parsed:
    """Read the text layer of a PDF as Markdown: columns in order, headings by their type.

    Raises Unparsable: "broken_pdf", "encrypted_pdf", or "no_text_layer" for a scan.
    """
    from srrag.corpus.pdf_lines import read_pages  # a question never needs the parser
    from srrag.corpus.pdf_text import printed_year, to_markdown

    _check(body)
    pages = read_pages(body)
    title, text = to_markdown(pages)
    metadata: Metadata = {"encoding": "pdf"}
    if empty := sum(not page for page in pages):
        metadata["pages_without_text"] = empty
    if year := printed_year(pages[0]):
        metadata["year"] = year
    printed = " ".join(line.text for page in pages[:2] for line in page)
    if doi := doi_of(_WRAPPED.sub(r"\1", printed[:_FIRST_CHARS])):
        metadata["doi"] = doi
    return Parsed(title, text, metadata)


def parse_pdf_docling(body: bytes) -> Parsed:
    """Convert a PDF with Docling (the extra `pdf`), which also reads tables and scans.

    Raises Unparsable("broken_pdf"), or ("missing_extra_pdf") where Docling is not installed.
    """
    _check(body)
    converter, document_stream, failure = _docling()
    stream = document_stream(name="document.pdf", stream=io.BytesIO(body))
    try:
        result = converter.convert(stream, max_num_pages=_MAX_PAGES, max_file_size=_MAX_FILE_BYTES)
    except failure as error:
        raise Unparsable("broken_pdf", str(error).splitlines()[0]) from error
    parsed = markdown_parts(result.document.export_to_markdown(), {})
    return Parsed(parsed.title, parsed.text, {**parsed.metadata, "encoding": "pdf"})


def _check(body: bytes) -> None:
    if b"%PDF-" not in body[:1024]:
        raise Unparsable("broken_pdf", "the file does not begin as a PDF")


@cache
def _docling() -> tuple[Any, Any, Any]:
    """The converter, its stream class and its exception; loaded once a process."""
    try:
        converter = importlib.import_module("docling.document_converter")
        stream = importlib.import_module("docling.datamodel.base_models")
        errors = importlib.import_module("docling.exceptions")
    except ModuleNotFoundError as error:
        raise Unparsable("missing_extra_pdf", "pip install srrag[pdf]") from error
    pdf = stream.InputFormat.PDF
    return (
        converter.DocumentConverter(allowed_formats=[pdf]),
        stream.DocumentStream,
        errors.ConversionError,
    )
