"""Markdown and plain text: the encoding of the bytes (UTF-8 first, then detection, else refusal),
front matter, the title heading, and a trailer of key: value lines.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

import charset_normalizer
import ftfy
import yaml
from ftfy.badness import is_bad

from srrag.corpus.clean import normalize_characters, tidy_inline, unescape
from srrag.corpus.parsed import Metadata, Parsed, Unparsable, plain_metadata
from srrag.corpus.record import plain_id

_SAMPLE_BYTES = 200_000
_CONTROL_SHARE = 0.02
_ZERO_SHARE = 0.6
_LATIN_RUN_BYTES = 1.5  # accents occur singly in Latin text; other scripts fill whole words
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\v\x1a"))
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode(body: bytes, declared: str = "") -> tuple[str, str]:
    """Return the text and the name of its encoding.

    Order: a byte order mark, UTF-16 by its zero bytes, UTF-8, the declared encoding, UTF-8 with
    single cp1252 lines, cp1252 where bytes over 127 stand alone, the best guess of
    charset-normalizer. Text that was already garbled when it was written (UTF-8 read as cp1252) is
    repaired and the name says so.
    Raises Unparsable("binary") or ("unknown_encoding").
    """
    if body.startswith(_UTF16):
        return _strict(body, "utf-16"), "utf-16"
    if (wide := _wide(body)) is not None:
        return wide
    if b"\x00" in body or _control_share(body[:_SAMPLE_BYTES]) > _CONTROL_SHARE:
        raise Unparsable("binary", "the bytes are no text")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _legacy(body, declared)
    if is_bad(text) and (fixed := ftfy.fix_encoding(text)) != text:
        return fixed, "utf-8, garbled text repaired"
    return text, "utf-8"


def _wide(body: bytes) -> tuple[str, str] | None:
    """Text in UTF-16 without a mark: Latin characters leave every second byte zero."""
    sample = body[: _SAMPLE_BYTES - _SAMPLE_BYTES % 2]
    for encoding, zeros, others in (
        ("utf-16-le", sample[1::2], sample[::2]),
        ("utf-16-be", sample[::2], sample[1::2]),
    ):
        half = max(1, len(sample) // 2)
        if zeros.count(0) < _ZERO_SHARE * half or others.count(0):
            continue
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError:
            return None
        shown = text[:_SAMPLE_BYTES].encode("utf-8")
        return (text, encoding) if _control_share(shown) <= _CONTROL_SHARE else None
    return None


def _legacy(body: bytes, declared: str) -> tuple[str, str]:
    if declared and (named := _declared(body, declared)):
        return named
    if (mixed := _mixed(body)) is not None:
        return mixed, "utf-8 and cp1252"
    runs = _HIGH_RUN.findall(body)
    if sum(map(len, runs)) <= _LATIN_RUN_BYTES * len(runs):
        try:
            return body.decode("cp1252"), "cp1252"
        except UnicodeDecodeError:
            pass  # five bytes are undefined in cp1252; try the detector
    guess = charset_normalizer.from_bytes(body[:_SAMPLE_BYTES]).best()
    if guess is None:
        raise Unparsable("unknown_encoding", "neither UTF-8 nor any encoding that fits")
    return _strict(body, guess.encoding), guess.encoding


def _declared(body: bytes, declared: str) -> tuple[str, str] | None:
    try:
        return body.decode(declared), codecs.lookup(declared).name
    except (LookupError, UnicodeDecodeError):
        return None


def _mixed(body: bytes) -> str | None:
    """Text of a file glued together from UTF-8 and cp1252 lines, or None if it is not one."""
    parts, num_utf8 = [], 0
    for line in body.removeprefix(codecs.BOM_UTF8).split(b"\n"):
        try:
            parts.append(line.decode("utf-8"))
            num_utf8 += not line.isascii()
        except UnicodeDecodeError:
            try:
                parts.append(line.decode("cp1252"))
            except UnicodeDecodeError:
                return None
    return "\n".join(parts) if num_utf8 else None


def _strict(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unparsable("unknown_encoding", f"not {encoding} at byte {error.start}") from error


def _control_share(sample: bytes) -> float:
    return (len(sample) - len(sample.translate(None, _CONTROLS))) / max(1, len(sample))


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
    """Split a closing block of "key: value" lines below a "---" line off the text.

    A block without any key of a source, such as "Conclusion: it did not help", is text.
    """
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
    kept = {key: value for key, value in metadata.items() if key in _TRAILER_KEYS}
    return (head, kept) if kept else (text, {})
