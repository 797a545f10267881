"""Character-level cleaning: pure maps on strings that never touch a digit."""

from __future__ import annotations

import re
import unicodedata
from html.entities import html5

_WHITE_TAGS = (
    "abstracttext|abstract|articletitle|otherabstract|title|sec|"
    "article-title|italic|bold|underline|"
    "html|body|main|article|section|header|footer|"
    "div|span|font|p|br|hr|h[1-6]|ul|ol|li|dl|dt|dd|blockquote|pre|code|"
    "table|thead|tbody|tfoot|tr|td|th|caption|"
    "strong|small|big|em|sub|sup|inf|tt|b|i|u|a|s"
)
_GLUED_TAGS = frozenset(
    ["i", "em", "italic", "u", "underline", "sub", "inf", "sup", "span", "font"]
)

# A tag is a name of the white list, then attributes of the form name="value". A bare word after
# the name ("p<b and c>d") is no attribute, so comparisons stay. Possessive quantifiers and
# classes without "<" keep the scan linear.
_TAG = re.compile(
    rf"<(?P<close>/?)(?P<name>{_WHITE_TAGS})"
    r"(?:\s++[A-Za-z_:][\w:.-]*+\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\s\"'<>=]++))*+\s*+/?>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:#(?P<dec>\d{1,7})|#[xX](?P<hex>[0-9A-Fa-f]{1,6})|(?P<name>\w{2,31}));")
_POWER_BEFORE = re.compile(r"[\d)]\Z")
_POWER_AFTER = re.compile(r"[+\-\u2212\u2013]?\d")


def _c1(code: int) -> str | None:
    try:
        return bytes([code]).decode("cp1252")
    except UnicodeDecodeError:
        return None


def _character_map() -> dict[int, str | None]:
    table: dict[int, str | None] = dict.fromkeys(range(32))
    table.update({ord("\n"): "\n", ord("\t"): "\t", ord("\f"): "\f"})
    table.update({ord("\v"): "\n", ord("\r"): "\n", 0x7F: None})
    table.update({code: _c1(code) for code in range(0x80, 0xA0)})
    exotic = (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
    table.update(dict.fromkeys(exotic, " "))
    table.update(dict.fromkeys((0x2028, 0x2029), "\n"))
    invisible = (0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F))
    table.update(dict.fromkeys(invisible))
    table.update(dict.fromkeys((*range(0x2060, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFC))))
    table.update(dict.fromkeys(range(0xD800, 0xE000)))  # lone surrogates cannot be stored
    return table


_MAP = _character_map()


def normalize_characters(text: str) -> str:
    r"""Map exotic spaces to blanks and line ends to \\n, drop invisible characters, apply NFC.

    C1 controls are read as cp1252 (\\x92 is an apostrophe there); form feeds stay, since they
    mark pages. Idempotent.
    """
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").translate(_MAP))


def decode_entities(text: str) -> str:
    """Decode HTML entities exactly once: "&amp;quot;" becomes "&quot;", unknown names stay."""

    def decoded(match: re.Match[str]) -> str:
        name = match["name"]
        if name is not None:
            return html5.get(name + ";", match[0])
        code = int(match["dec"]) if match["dec"] else int(match["hex"], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            return ""
        return chr(code)

    return _ENTITY.sub(decoded, text)


def strip_tags(text: str) -> str:
    """Remove only white-listed tags; "<0.05" and "a<b and c>d" stay.

    A removed block tag leaves a blank, an inline tag nothing. A superscript number after a digit
    gets a "^": "10<sup>6</sup>" becomes "10^6", since 106 would be another number.
    """

    def replaced(match: re.Match[str]) -> str:
        name = match["name"].lower()
        if name == "sup" and not match["close"]:
            before = _POWER_BEFORE.search(text, max(0, match.start() - 1), match.start())
            return "^" if before and _POWER_AFTER.match(text, match.end()) else ""
        return "" if name in _GLUED_TAGS else " "

    return _TAG.sub(replaced, text)
