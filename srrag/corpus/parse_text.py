"""Markdown and plain text: front matter, the title heading, and a trailer of key: value lines."""

from __future__ import annotations

import re
from typing import Any

import yaml

from srrag.corpus.clean import normalize_characters, tidy_inline, unescape
from srrag.corpus.encoding import decode
from srrag.corpus.parsed import Metadata, Parsed, plain_metadata
from srrag.corpus.record import plain_id

_MAX_FRONT_CHARS = 16_384
_MAX_TRAILER_LINES = 20
_FRONT = re.compile(r"\s*---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
# A key of front matter that is no YAML, such as `title: A brace: a trial`.
_KEY_LINE = re.compile(r"([A-Za-z][\w -]{0,40}?)[ \t]*:(?:[ \t]+(.*))?")
_TITLE = re.compile(r"\s*#[ \t]+(\S[^\n]*)(?:\n|\Z)")
_TRAILER_LINE = re.compile(r"([A-Za-z][\w -]{0,30}):[ \t]*(.*)")
# A trailer is part of the text: it may name its source but never set its own grade. So its
# MeSH headings, which grade where an indexer gave them, are kept under another name.
_TRAILER_KEYS = frozenset(
    ["pmid", "pmcid", "doi", "year", "mesh_in_text", "journal", "license", "source"]
)


def parse_markdown(body: bytes) -> Parsed:
    """Parse a Markdown file; its YAML front matter gives the metadata."""
    text, encoding = decode(body)
    metadata, text = split_front_matter(normalize_characters(text))
    parsed = markdown_parts(unescape(text), metadata)
    return Parsed(parsed.title, parsed.text, {**parsed.metadata, "encoding": encoding})


def parse_plain(body: bytes) -> Parsed:
    """Parse a plain text file, which has neither title nor metadata."""
    text, encoding = decode(body)
    return Parsed("", unescape(text), {"encoding": encoding})


def markdown_parts(text: str, metadata: Metadata) -> Parsed:
    """Split title heading and trailer from Markdown; given metadata override the trailer's.

    Entities must already be decoded. A leading "# heading" becomes the title; if it differs from a
    given title, it stays in the text.
    """
    text, trailer = split_trailer(text)
    title = str(metadata.get("title", ""))
    heading = _TITLE.match(text)
    if heading:
        shown = tidy_inline(heading[1]).strip("#* ")
        if not title or shown.casefold() == tidy_inline(title).casefold():
            title, text = title or shown, text[heading.end() :]
    kept = {key: value for key, value in metadata.items() if key != "title"}
    return Parsed(title, text, {**trailer, **kept})


def split_front_matter(text: str) -> tuple[Metadata, str]:
    """Split YAML front matter off; anything but a mapping of plain values stays text.

    Only scalars and lists of scalars are taken, so nested aliases cannot blow up. A block of keys
    that is no YAML, as people write it, is read line by line.
    """
    match = _FRONT.match(text, 0, _MAX_FRONT_CHARS)
    if match is None:
        return {}, text
    try:
        record = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        record = _by_lines(match[1])
        if record is None:
            return {"front_matter_note": "broken YAML, read as text"}, text
    if not isinstance(record, dict):
        return {}, text
    return plain_metadata(record), text[match.end() :]


def _by_lines(block: str) -> Metadata | None:
    """Read lines of `key: value`, with what is indented or listed below them; None for prose."""
    record: Metadata = {}
    key = ""
    for line in block.splitlines():
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        if found := _KEY_LINE.fullmatch(line.rstrip()):
            key = found[1]
            record[key] = _value(found[2] or "")
        elif not key or line[0] not in " \t-":
            return None
        elif said.startswith("- "):
            before = record[key]
            items = before if isinstance(before, list) else [before] if before else []
            record[key] = [*items, _value(said[2:])]
        elif isinstance(record[key], str):
            record[key] = f"{record[key]} {said}".strip()
    return record or None


def _value(text: str) -> Any:
    """Return a plain value or a list of some as YAML reads it, anything else as it is written."""
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text.strip()
    nested = value if isinstance(value, list) else [value]
    plain = not any(isinstance(each, (dict, list)) for each in nested)
    return value if plain and value is not None else text.strip()


def front_matter_id(body: bytes) -> str:
    """The id in the front matter of a Markdown file's bytes, or ""."""
    if not body.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"---"):
        return ""
    head = body[:_MAX_FRONT_CHARS].decode("utf-8", "replace")
    metadata, _ = split_front_matter(normalize_characters(head))
    return plain_id(metadata.get("id", ""))


def split_trailer(text: str) -> tuple[str, Metadata]:
    """Split a closing block of "key: value" lines below a "---" line off the text."""
    head, mark, tail = text.rstrip().rpartition("\n---\n")
    lines = tail.splitlines()
    if not mark or not lines or len(lines) > _MAX_TRAILER_LINES:
        return text, {}
    matches = [_TRAILER_LINE.fullmatch(line.strip()) for line in lines]
    found = [(match[1], match[2]) for match in matches if match]
    if len(found) < len(lines):
        return text, {}
    metadata = plain_metadata(dict(found))
    if "mesh" in metadata:
        metadata["mesh_in_text"] = metadata["mesh"]
    return head, {key: value for key, value in metadata.items() if key in _TRAILER_KEYS}
