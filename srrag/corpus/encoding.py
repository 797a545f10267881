"""Decode bytes to text and name the encoding: UTF-8 first, then detection, else refusal."""

from __future__ import annotations

import codecs
import re

import charset_normalizer
import ftfy
from ftfy.badness import is_bad

from srrag.corpus.parsed import Unparsable

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
