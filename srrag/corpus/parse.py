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
from srrag.corpus.clean import tidy_document, tidy_inline, unescape
from srrag.corpus.parse_html import parse_docx, parse_html
from srrag.corpus.parse_jats import parse_jats
from srrag.corpus.parse_pdf import parse_pdf, parse_pdf_docling
from srrag.corpus.parse_text import markdown_parts, parse_markdown, parse_plain
from srrag.corpus.parsed import Metadata, Parsed, Unparsable, check_kept, plain_ids, plain_metadata
from srrag.corpus.read_cnxml import parse_cnxml
from srrag.corpus.read_pubmed import parse_pubmed

_CONTENT = ("text", "title")


def parse_json(body: bytes) -> Parsed:
    """Parse a record of ReadJsonl: `text` is a string or a list of {heading, text}."""
    record = _object(body)
    metadata = plain_metadata({key: record[key] for key in record if key not in _CONTENT})
    metadata["encoding"] = "utf-8"
    content = record.get("text", "")
    if isinstance(content, list):
        content = "\n\n".join(_section(part) for part in content)
    if not isinstance(content, str):
        raise Unparsable("no_text", f"text is a {type(content).__name__}, not a string")
    title = record.get("title", "")
    if isinstance(title, str) and title:
        metadata["title"] = unescape(title)
    return markdown_parts(unescape(content.replace("\r\n", "\n")), metadata)


def parse_beir(body: bytes) -> Parsed:
    """Parse a BEIR passage: the text is only `text`; the title stays separate."""
    record = _object(body)
    text, title, extra = (record.get(key) for key in ("text", "title", "metadata"))
    if not isinstance(text, str):
        raise Unparsable("no_text", "the passage has no text")
    metadata: Metadata = plain_metadata(extra) if isinstance(extra, dict) else {}
    metadata["encoding"] = "utf-8"
    return Parsed(unescape(title) if isinstance(title, str) else "", unescape(text), metadata)


def _section(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    heading = tidy_inline(str(part.get("heading") or part.get("label") or ""))
    text = str(part.get("text") or "")
    return f"## {heading}\n\n{text}" if heading else text


def _object(body: bytes) -> dict[str, Any]:
    try:
        record = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unparsable("broken_json", str(error).splitlines()[0]) from error
    if not isinstance(record, dict):
        raise Unparsable("broken_json", "no JSON object")
    return record


GUIDELINE_SETS: dict[str, str] = {
    "GL-GEN": "General clinical exercise guideline set",
    "GL-SP": "Special-population guideline subset",
}

SUB_CONDITIONS: dict[str, str] = {
    "ACL": "Anterior cruciate ligament injury",
    "AT": "Achilles tendinopathy",
    "BSI": "Bone stress injury",
    "FS": "Adhesive capsulitis of the shoulder",
    "GPA": "Groin pain in athletes",
    "GTPS": "Greater trochanteric pain syndrome",
    "HSI": "Hamstring strain injury",
    "IS": "Isthmic spondylolisthesis",
    "LAS": "Lateral ankle sprain",
    "LBP": "Low back pain",
    "ITBS": "Iliotibial band syndrome",
    "LET": "Lateral elbow tendinopathy",
    "MACL": "Knee meniscal and articular cartilage lesions",
    "MTSS": "Medial tibial stress syndrome",
    "NAHJP": "Nonarthritic hip joint pain",
    "NP": "Neck pain",
    "PHP": "Plantar heel pain",
    "PFP": "Patellofemoral pain",
    "PT": "Patellar tendinopathy",
    "RCRSP": "Rotator cuff related shoulder pain",
    "FTASD": "First-time anterior shoulder dislocation",
}

CONDITIONS: dict[str, str] = {**SUB_CONDITIONS, **GUIDELINE_SETS}

_BY_NAME = {name.casefold(): code for code, name in CONDITIONS.items()}


def condition_code(given: str) -> str:
    """Return the code for a code or a full name in any case; "" if it is unknown."""
    bare = given.strip()
    return bare.upper() if bare.upper() in CONDITIONS else _BY_NAME.get(bare.casefold(), "")


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

    version: ClassVar[int] = 12
    reads: ClassVar[tuple[str, ...]] = ("raw_id", "source", "source_id", "format", "body", "reject")
    writes: ClassVar[pa.Schema] = DOCUMENTS

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown way to read PDF files."""
        if self.pdf not in PDF_PARSERS:
            raise ValueError(f"pdf={self.pdf}: {' or '.join(PDF_PARSERS)}")

    def open(self, at: Place) -> Function:
        """Return the parser; raises ValueError if Docling is asked for and not installed."""
        if self.pdf == "docling" and importlib.util.find_spec("docling") is None:
            raise ValueError("pdf=docling needs: pip install 'srrag[pdf]'")
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
        check_kept(parsed)
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
