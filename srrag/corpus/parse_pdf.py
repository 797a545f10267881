"""PDF files through Docling, the optional extra `pdf` (SR-RAG, section 4.1)."""

from __future__ import annotations

import importlib
import io
from functools import cache
from typing import Any

from srrag.corpus.parse_text import markdown_parts
from srrag.corpus.parsed import Parsed, Unparsable

_MAX_PAGES = 1_000
_MAX_FILE_BYTES = 50_000_000


def parse_pdf(body: bytes) -> Parsed:
    """Convert a PDF to Markdown with its headings and tables.

    Raises Unparsable("broken_pdf"), or ("missing_extra_pdf") where Docling is not installed.
    """
    if b"%PDF-" not in body[:1024]:
        raise Unparsable("broken_pdf", "the file does not begin as a PDF")
    converter, document_stream, failure = _docling()
    stream = document_stream(name="document.pdf", stream=io.BytesIO(body))
    try:
        result = converter.convert(stream, max_num_pages=_MAX_PAGES, max_file_size=_MAX_FILE_BYTES)
    except failure as error:
        raise Unparsable("broken_pdf", str(error).splitlines()[0]) from error
    parsed = markdown_parts(result.document.export_to_markdown(), {})
    return Parsed(parsed.title, parsed.text, {**parsed.metadata, "encoding": "pdf"})


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
