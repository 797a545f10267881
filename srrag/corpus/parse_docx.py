"""Word files (.docx) through mammoth: as HTML, then as any page."""

from __future__ import annotations

import io
import zipfile

import mammoth

from srrag.corpus.parse_html import parse_html
from srrag.corpus.parsed import Parsed, Unparsable

_MAX_UNPACKED_BYTES = 200_000_000


def parse_docx(body: bytes) -> Parsed:
    """Read headings, paragraphs, lists and tables of a Word file; pictures are left out.

    Raises Unparsable("broken_docx"), or ("too_large") where the unpacked file is.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as packed:
            unpacked = sum(item.file_size for item in packed.infolist())
    except (zipfile.BadZipFile, ValueError) as error:
        raise Unparsable("broken_docx", str(error)) from error
    if unpacked > _MAX_UNPACKED_BYTES:
        raise Unparsable("too_large", f"{unpacked} bytes when unpacked")
    no_picture = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        page = mammoth.convert_to_html(io.BytesIO(body), convert_image=no_picture).value
    except Exception as error:  # a damaged file raises almost anything in the parser
        detail = (str(error).splitlines() or [""])[0]
        raise Unparsable("broken_docx", f"{type(error).__name__} {detail}".strip()) from error
    parsed = parse_html(f"<html><body>{page}</body></html>".encode())
    return Parsed(parsed.title, parsed.text, {**parsed.metadata, "encoding": "docx"})
