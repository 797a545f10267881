"""Text cleaning: pure functions from string to string (SR-RAG, section 4.1).

`unescape` decodes mark-up, and only once: a text may hold entities after the first pass ("&quot;",
written "&amp;quot;"). The `tidy_*` functions that follow are idempotent and never change a digit.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from html.entities import html5

_EDGE_LINES = 2
_MIN_PAGES = 3
_PAGE_SHARE = 0.6
_LAID_OUT_PAGES, _LAID_OUT_SHARE = 2, 0.3
"""Where the layout tells what is no line of the text: heads of left and right pages differ."""
_MIN_REPEATS = 3
_TAIL_CHARS = 300
_LOOK_AHEAD, _MIN_AUTHORS = 5, 2
_BARE = 6
"""Level of a list of references whose name bears no mark of a heading."""

_DIGITS = re.compile(r"\d+")
_EDGE_NUMBERS, _MOST_DIGITS = 2, 6
_PAGE_NUMBER = re.compile(r"\A\d+(?= )|(?<= )\d+\Z|(?<=\bpage )\d+", re.IGNORECASE)
_HEADING = re.compile(r"(#{1,6}) +(\S.*)")
_LONE_NUMBER = re.compile(r"(?:[-\u2013\u2014] ?)?\d{1,4}(?: ?[-\u2013\u2014])?")
_PAGE_OF = re.compile(r"(?:page|p\.) ?\d{1,4}(?: ?(?:of|/) ?\d{1,4})?", re.IGNORECASE)
_RUNNING = re.compile(
    r"downloaded from|author manuscript|\bdoi\b|https?://|www\.|\bissn\b|et al\b"
    r"|\bvol(?:ume|\.)? ?\d+(?!\S* ?(?:m?l|cc)\b)|\bjournal\b|\ball rights\b|page \d",
    re.IGNORECASE,
)
_NOTICE = re.compile(
    r"(?:copyright\b ?(?:\u00a9|\(c\)|(?:19|20)\d\d\b)|\u00a9 ?\S|\(c\) ?(?:19|20)\d\d\b"
    r"|all rights reserved\b|downloaded from \S|click here (?:for|to)\b"
    r"|this is an open[- ]access article\b"
    r"|(?:this article is )?(?:published|licen[cs]ed) under (?:a|the) creative commons\b)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"rights (?:reserved|and permissions)|\bre-?use\b|open[- ]access|creative commons|copyright"
    r"|published (?:by|under)\b|\u00a9|\(c\) ?(?:19|20)\d\d\b",
    re.IGNORECASE,
)
"""What a sentence behind a notice says if it is a part of it."""
_SENTENCE_END = re.compile(r"(?<!\b[A-Z])(?<!\bet al)[.!?][*_]* (?=\S)")
_ITEM_BEFORE = "(b)"
_SENTENCE_NOTICE = re.compile(
    r"(?<=[.!?)]) (?:copyright ?(?:\u00a9|\(c\)|(?=(?:19|20)\d\d\b))|\u00a9|\(c\)(?= ?(?:19"
    r"|20)\d\d\b))",
    re.IGNORECASE,
)
_REFERENCES = re.compile(
    r"(?:\d{1,2}\.? )?(?:list of )?(?:references?|bibliography|literature cited|works cited"
    r"|reference list|references and notes)(?: list)?:?",
    re.IGNORECASE,
)
_AUTHOR = r"\b[A-Z][\w'\u2019-]+,? (?:[A-Z]\.?[ -]?){1,3}(?:[,.;:&]|and\b|et al|$)"
_ITEM_START = re.compile(rf"(?:[-*] )?(?:\[?\d{{1,4}}[\]).] ?)?{_AUTHOR}")
_REFERENCE_ITEM = re.compile(
    rf".{{0,400}}?(?:{_AUTHOR}"
    r"|\b(?:19|20)\d\d[a-z]?[;,.:)]|\bdoi\b|https?:)"
    r"|(?:[-*] )?(?:\[\d{1,4}\]|\d{1,4}[.)]) .{0,200}\b(?:19|20)\d\d\b"
)
"""An author with initials, a year as citations close it, or a link."""
_AFTER_REFERENCES = re.compile(
    r"(?:appendix|appendices|supplement\w*|figure legends?|tables?|annex)\b.{0,60}", re.IGNORECASE
)

_LIST_EDGES = (_HEADING, _REFERENCES, _AFTER_REFERENCES)


def drop_page_furniture(text: str) -> str:
    """Drop lines that recur at the edges of pages; form feeds separate the pages.

    A line is page furniture if it is among the outer two lines of at least 60 % of three or more
    pages. Lines that differ in a number count as equal where it counts with the pages.
    """
    if "\f" not in text:
        return text
    pages = [page.split("\n") for page in text.split("\f") if page.strip()]
    kept: list[str] = []
    for page, furniture in zip(pages, page_furniture(pages), strict=True):
        kept += [line for i, line in enumerate(page) if i not in furniture]
    return "\n".join(kept)


def page_furniture(
    pages: Sequence[Sequence[str]], outer: Sequence[Iterable[int]] | None = None
) -> list[set[int]]:
    """The numbers of the lines of each page that are page furniture (see `drop_page_furniture`).

    `outer` tells which lines are at the edges of each page; else the first and last ones are, and
    a number alone in one of them is that of its page. In a layout it may be a cell of a table.
    """
    laid_out = outer is not None
    least, share = (_LAID_OUT_PAGES, _LAID_OUT_SHARE) if laid_out else (_MIN_PAGES, _PAGE_SHARE)
    need = max(least, share * len(pages))
    if outer is None:
        outer = [_outer(page) for page in pages]
    edges = [
        {i: _keys(page[i], at) for i in numbers}
        for at, (page, numbers) in enumerate(zip(pages, outer, strict=True))
    ]
    counts = Counter(key for keys in edges for key in set().union(*keys.values()))
    found = []
    for page, keys in zip(pages, edges, strict=True):
        furniture = {i for i, own in keys.items() if any(counts[key] >= need for key in own)}
        if len(pages) >= _MIN_PAGES and not laid_out:
            furniture |= {i for i in keys if _LONE_NUMBER.fullmatch(page[i].strip())}
        found.append(furniture)
    return found


def drop_notices(lines: Sequence[str]) -> list[str]:
    """Drop page-number lines, and notices of copyright and download; what is behind one stays."""
    kept: list[str] = []
    above = ""
    for line in lines:
        bare = line.strip().lstrip("*_ ")
        if not bare:
            kept.append(line)
            continue
        opens = _NOTICE.match(bare) and not _is_item(bare, above)
        end = _notice_end(bare, 0) if opens else 0
        rest = bare[end:].lstrip("*_ ") if end else line
        if not rest or _PAGE_OF.fullmatch(rest.strip().lstrip("*_ ")):
            continue
        above = _without_notices(rest)
        kept.append(above)
    return kept


def _without_notices(line: str) -> str:
    """Cut each notice that begins behind a sentence."""
    kept, at = [], 0
    while found := _SENTENCE_NOTICE.search(line, at):
        start = found.start() + 1
        item = _is_item(line[start : found.end()], line[max(0, start - _TAIL_CHARS) : start])
        kept.append(line[at:start])
        at = start if item else _notice_end(line, start)
    return "".join([*kept, line[at:]]).rstrip()


def _notice_end(text: str, start: int) -> int:
    """Where a notice ends: with its sentence and those that go on with it, if they are short."""
    end = start
    while end < len(text):
        found = _SENTENCE_END.search(text, end, end + 2 * _TAIL_CHARS)
        following = found.end() if found else len(text)
        if following - end > 2 * _TAIL_CHARS:
            break
        if end > start and not _is_notice(text[end:following].lstrip("*_ ")):
            break
        end = following
    return end


def _is_notice(sentence: str) -> bool:
    return bool(_NOTICE.match(sentence) or _GOES_ON.search(sentence))


def _is_item(notice: str, before: str) -> bool:
    """Whether "(c) 2000" is the third of a list, "(c) 2000 IU of heparin"."""
    return notice[:3].lower() == "(c)" and _ITEM_BEFORE in before[-_TAIL_CHARS:].lower()


def drop_running_lines(lines: Sequence[str]) -> list[str]:
    """Drop lines that occur three times or more and name a journal, address or page.

    This serves converted documents without page breaks. Other recurring lines (a guideline repeats
    "Strong recommendation, moderate evidence") are content.
    """
    counts = Counter(_masked(line) for line in lines if _is_running(line))
    return [
        line for line in lines if not (_is_running(line) and counts[_masked(line)] >= _MIN_REPEATS)
    ]


def drop_references(lines: Sequence[str]) -> list[str]:
    """Drop reference lists: from a heading of that name to the next heading of its level.

    It opens a list only if the following lines look like one, since a column of a table may have
    that name. The list ends at an appendix too, whatever its level, and without marks of headings
    where the lines look like items no more.
    """
    kept: list[str] = []
    level = 0  # heading level of the list being dropped, 0 for none
    apart = False  # whether a blank line stands above
    for index, line in enumerate(lines):
        bare = line.strip()
        if not bare:
            if not level:
                kept.append(line)
            apart = True
            continue
        heading = _HEADING.fullmatch(bare)
        if level and _closes(bare, heading, level):
            level = 0
        elif level == _BARE and not heading and _is_over(lines, index, apart):
            level = 0
            kept += [""] * apart
        apart = False
        if not level:
            level = _opens(lines, index, heading)
        if not level:
            kept.append(line)
    return kept


def _opens(lines: Sequence[str], index: int, heading: re.Match[str] | None) -> int:
    said = heading[2].strip("*_ #") if heading else lines[index].strip().strip("*_ ")
    if not _REFERENCES.fullmatch(said):
        return 0
    ahead = _items_ahead(lines, index + 1)
    if heading:
        return len(heading[1]) if 2 * sum(ahead) >= len(ahead) else 0
    return _BARE if 2 * sum(ahead) > len(ahead) else 0


def _is_over(lines: Sequence[str], index: int, apart: bool) -> bool:
    """Whether a line and most of the next ones look like no items of a list.

    An item may go on over lines that look like none, so without a blank line above none of the next
    five may. Items of institutions look like none, so the list goes on if authors open lines soon.
    """
    own, *after = _items_ahead(lines, index) or [True]
    if own or 2 * sum(after) > len(after):
        return False
    if not apart and (any(after) or len(after) < _LOOK_AHEAD - 1):
        return False
    return sum(_items_ahead(lines, index, 3 * _LOOK_AHEAD, _ITEM_START)) < _MIN_AUTHORS


def _items_ahead(
    lines: Sequence[str],
    start: int,
    most: int = _LOOK_AHEAD,
    item: re.Pattern[str] = _REFERENCE_ITEM,
) -> list[bool]:
    """Whether each of the next lines looks like an item, up to an edge of a list."""
    ahead: list[bool] = []
    for line in lines[start : start + 4 * most]:
        bare = line.strip()
        if len(ahead) == most or any(edge.fullmatch(bare) for edge in _LIST_EDGES):
            break
        if bare:
            ahead.append(bool(item.match(bare)))
    return ahead


def _closes(bare: str, heading: re.Match[str] | None, level: int) -> bool:
    if heading and len(heading[1]) <= level:
        return True
    return bool(_AFTER_REFERENCES.fullmatch(heading[2].strip("*_ #") if heading else bare))


def _outer(page: Sequence[str]) -> set[int]:
    filled = [i for i, line in enumerate(page) if line.strip()]
    return {*filled[:_EDGE_LINES], *filled[-_EDGE_LINES:]}


def _keys(line: str, page: int) -> set[str]:
    """A line as it stands, and with each number near its edges told from that of the page."""
    bare = line.strip()
    found = list(_DIGITS.finditer(bare))
    return {bare} | {
        f"{bare[: each.start()]}#{int(each[0]) - page}{bare[each.end() :]}"
        for each in {*found[:_EDGE_NUMBERS], *found[-_EDGE_NUMBERS:]}
        if len(each[0]) <= _MOST_DIGITS
    }


def _masked(line: str) -> str:
    """A line without its page number, which is at an edge of it or behind "page"."""
    return _PAGE_NUMBER.sub("#", line.strip())


def _is_running(line: str) -> bool:
    bare = line.strip()
    if not 10 <= len(bare) <= 150 or bare[0] in "#|-*>[":
        return False
    return bool(_RUNNING.search(bare))


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
_CODED = re.compile(rf"\s|{_ENTITY.pattern}")
_NUMBER_BEFORE = re.compile(r"(?:[\d)]|\d[.,%])( ?)\Z")
_RAISED = re.compile(r"[+\-\u2212\u2013]?\d(?P<alone>[\d,.\u2013-]*\Z)?")
_SUP_END = re.compile(r"</sup\s*>", re.IGNORECASE)
_NEAR, _MOST_RAISED = 3, 80


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

    A removed block tag leaves a blank, an inline tag nothing. A superscript number behind a number
    gets a "^": "10<sup>6</sup>" becomes "10^6", since 106 would be another number.
    """
    parts: list[str] = []
    before, at = "", 0  # what stands before in its block
    for match in _TAG.finditer(text):
        name = match["name"].lower()
        piece, at = text[at : match.start()], match.end()
        before = (before + piece[-_NEAR:])[-_NEAR:]
        put = "" if name in _GLUED_TAGS else " "
        if name == "sup" and not match["close"]:
            end = _SUP_END.search(text, at, at + _MOST_RAISED)
            raised = decode_entities(_TAG.sub("", text[at : end.start() if end else at]))
            after = text[end.end() : end.end() + 1] if end else ""
            if is_raised_number(before, raised.strip(), after):
                piece, put = piece.rstrip(" "), "^"
                at = _skip_blanks(text, at)
        if put == " ":
            before = ""
        parts += (piece, put)
    return "".join([*parts, text[at:]])


def _skip_blanks(text: str, at: int) -> int:
    """Return where the next character stands that is no blank, also none coded as an entity."""
    while (found := _CODED.match(text, at)) and not decode_entities(found[0]).strip():
        at = found.end()
    return at


def is_raised_number(before: str, raised: str, after: str) -> bool:
    """Whether a raised text is a number that would be read as a part of the number before it.

    It is a power, or the mark of a citation. Behind a blank it may be of an isotope, "20 131I".
    """
    found = _NUMBER_BEFORE.search(before[-_NEAR:])
    number = _RAISED.match(raised)
    if found is None or number is None:
        return False
    return not found[1] or (number["alone"] is not None and not after[:1].isupper())


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
