"""Parse documents from JSON: the mapped records of ReadJsonl and BEIR passages."""

from __future__ import annotations

import json
from typing import Any

from srrag.corpus.clean import tidy_inline, unescape
from srrag.corpus.parse_text import markdown_parts
from srrag.corpus.parsed import Metadata, Parsed, Unparsable, plain_metadata

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
