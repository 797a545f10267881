"""Text cleaning: pure functions from string to string (SR-RAG, section 4.1).

`unescape` decodes mark-up, and only once: a text may hold entities after the first pass ("&quot;",
written "&amp;quot;"). The `tidy_*` functions that follow are idempotent and never change a digit.
"""

from __future__ import annotations

import re
import unicodedata
from html.entities import html5

from srrag.corpus.boilerplate import (
    drop_notices,
    drop_page_furniture,
    drop_references,
    drop_running_lines,
)

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
    letters = range(0x1D400, 0x1D800)  # of formulas, as in "20 \U0001d707g"
    table.update({code: unicodedata.normalize("NFKC", chr(code)) for code in letters})
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


_UNITS = (
    "mmol|\u03bcmol|nmol|pmol|mol|mmHg|mOsm|kcal|kJ|kPa|kHz|MHz|Hz|"
    "mg|\u03bcg|mcg|kg|ng|pg|g|ml|mL|\u03bcl|\u03bcL|dl|dL|nL|cl|cL|"
    "nM|\u03bcM|mM|mm|cm|km|\u03bcm|nm|min|msec|sec|ms|h|hrs?|wk|bpm|rpm|IU|mV|kV|Gy|cGy|kDa"
)
_DIGIT = re.compile(r"\d")
_MICRO = re.compile(r"(?<=\d)( ?)\u00b5(?=(?:g|mol|l|L|M|m)\b)")
# The number must not end a name (IL-5, B12), a path or a longer number.
_MEASURE = re.compile(
    rf"(?<![\w.,/])(?<![A-Za-z]-)(\d++(?:[.,]\d++)*+) ?({_UNITS})(?![\w^\u00b2\u00b3])(?!-\w)"
)
_PERCENT = re.compile(r"(?<=\d) %")
_DEGREES = re.compile(r"(?<=\d) ?[\u00b0\u00ba] ?C\b")
_RANGE_DASH = re.compile(r"(?<=[\d%])( ?)[\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d](?= ?\d)")
_TIGHT_EM_DASH = re.compile(r"(?<=\d)\u2014(?=\d)")
_MINUS_SIGN = re.compile(r"(?<![\w)\]%])\u2212(?=[\d.])")
# "0x10" is a hexadecimal number, hence no tight x after a lone 0.
_TIMES = re.compile(r"(?<=\d) ?\u00d7 ?(?=\d)|(?<=\d) x (?=\d)|(?<=[1-9])x(?=\d)|(?<=\d0)x(?=\d)")
_PLUS_MINUS = re.compile(r"(?<=[\d%]) ?(?:\u00b1|\+/-|\+/\u2212) ?(?=\d)")
# "3\u00b75" is a decimal as some journals print it; "5\u00b710^3" is a product and stays.
_MIDDLE_DOT = re.compile(r"(?<![\d.,\u00b7])(\d{1,4})\u00b7(?!10(?!\d))(\d{1,4})(?![\d\u00b7^])")


def format_measures(text: str) -> str:
    """Give numbers and units one form: "5mg" is "5 mg", "53 %" is "53%", "5\u201310" is "5-10".

    Dash and minus variants between numbers become "-", times and plus-minus signs get blanks
    on both sides. The sequence of digits is untouched. Idempotent; runs of blanks must have
    been collapsed before.
    """
    if not _DIGIT.search(text):
        return text
    text = _MICRO.sub("\\1\u03bc", text)
    text = _MIDDLE_DOT.sub(r"\1.\2", text)
    text = _RANGE_DASH.sub(r"\1-", text)
    text = _TIGHT_EM_DASH.sub("-", text)
    text = _MINUS_SIGN.sub("-", text)
    text = _TIMES.sub(" \u00d7 ", text)
    text = _PLUS_MINUS.sub(" \u00b1 ", text)
    text = _DEGREES.sub(" \u00b0C", text)
    text = _PERCENT.sub("%", text)
    return _MEASURE.sub(r"\1 \2", text)


_INNER_BLANKS = re.compile(r"(?<=\S)[ \t]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def unescape(text: str) -> str:
    """Remove white-listed tags, then decode entities once, so "&lt;b&gt;" stays readable text."""
    return decode_entities(strip_tags(text))


def tidy_inline(text: str) -> str:
    """Normalise characters and collapse all whitespace to single blanks. Idempotent."""
    return " ".join(normalize_characters(text).split())


def tidy_document(text: str) -> str:
    """Clean a document and keep its lines, headings, lists and tables. Idempotent.

    Drops headers, footers, notices and reference lists, and gives numbers and units one form.
    """
    lines = drop_page_furniture(normalize_characters(text)).split("\n")
    lines = [format_measures(_one_blank(line)) for line in lines]
    lines = drop_references(drop_running_lines(drop_notices(lines)))
    joined = "\n".join(line.rstrip() for line in lines)
    return unicodedata.normalize("NFC", _BLANK_LINES.sub("\n\n", joined).strip())


def _one_blank(line: str) -> str:
    """Collapse blanks within a line; leading blanks mark the nesting of lists and stay."""
    content = line.lstrip(" \t")
    lead = line[: len(line) - len(content)]
    return lead.replace("\t", "    ") + _INNER_BLANKS.sub(" ", content).rstrip()
