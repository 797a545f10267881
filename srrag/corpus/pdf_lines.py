"""The lines of a PDF in reading order, through pdfminer.six: columns, sizes, pages without text."""

from __future__ import annotations

import copy
import io
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise, takewhile, zip_longest
from typing import Any, NamedTuple

from pdfminer.converter import PDFPageAggregator
from pdfminer.layout import (
    LAParams,
    LTChar,
    LTContainer,
    LTFigure,
    LTImage,
    LTPage,
    LTText,
    LTTextLine,
)
from pdfminer.pdfdocument import PDFDocument, PDFPasswordIncorrect
from pdfminer.pdffont import PDFFont, PDFSimpleFont
from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
from pdfminer.pdfpage import PDFPage
from pdfminer.pdfparser import PDFParser
from pdfminer.pdftypes import resolve1
from pdfminer.utils import decode_text

from srrag.corpus.parsed import Unparsable

UNKNOWN = "\ufffd"
"""Stands for a sign of which the font does not tell what it is."""

_CODES = range(0x21, 0x7F)
_LETTERS = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_SIGNS = "′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…"
_SYMBOL: Mapping[int, str] = {
    0x2A: "*", 0x2D: "\u2212", 0x40: "≅", 0xD7: "⋅", 0xE5: "∑",
    **{0x41 + place: letter for place, letter in enumerate(_LETTERS)},
    **{0xA2 + place: sign for place, sign in enumerate(_SIGNS)},
}  # fmt: skip
_PI: Mapping[int, str] = dict.fromkeys(_CODES, UNKNOWN) | {
    **{ord(code): _SYMBOL[ord(code)] for code in "abdegmlksGD"},
    **dict(zip(map(ord, "123569,.$()[]/"), "+\u2212×=±′<>°()[]/", strict=True)),
}
_ALPHABET: Mapping[int, str] = dict.fromkeys(_CODES, UNKNOWN) | dict(
    zip(map(ord, "abcdefghijklm"), "αβγδεζηθικλμν", strict=False)
)
_FONTS: Sequence[tuple[re.Pattern[str], Mapping[int, str]]] = [
    (re.compile(r"AdvPS?7DA6|AdvPi\d|MathematicalPi-?One"), _PI),
    (re.compile(r"AdvPSMP\d"), _ALPHABET),
]
_SYMBOL_NAME = re.compile(r"(?:.*\+)?Symbol(?:MT)?(?:[,-].*)?")
_UNITS = ("g", "L", "l", "M", "m")
_ALONE = 2
"""The longest run of a font that sets signs, and no words."""


class SymbolFonts(PDFResourceManager):
    """The fonts of a file; those that only look like Latin ones read as what they print."""

    def get_font(self, objid: object, spec: Mapping[str, Any]) -> PDFFont:
        """Return a font of the file."""
        font: PDFFont = super().get_font(objid, spec)
        if not isinstance(font, PDFSimpleFont):
            return font
        name = str(getattr(spec.get("BaseFont"), "name", ""))
        own = next((codes for pattern, codes in _FONTS if pattern.search(name)), None)
        if own is not None:
            font.unicode_map, font.cid2unicode = None, dict(own)
        elif _SYMBOL_NAME.fullmatch(name) and "Encoding" not in spec and not font.unicode_map:
            font.cid2unicode = {**font.cid2unicode, **_SYMBOL}
        return font


def mend_micro(chars: Sequence[LTChar]) -> None:
    """Read the m or l of a font that sets no words, before a unit of another font, as micro."""
    longest: dict[str, int] = {}
    for name, run in groupby(chars, key=lambda char: char.fontname):
        length = sum(not char.get_text().isspace() for char in run)
        longest[name] = max(longest.get(name, 0), length)
    for before, char, after in zip(chars, chars[1:], chars[2:], strict=False):
        alone = longest[char.fontname] <= _ALONE
        unit = char.get_text() in ("m", "l") and after.get_text() in _UNITS
        if alone and unit and char.fontname not in (before.fontname, after.fontname):
            char._text = "μ"


logging.getLogger("pdfminer").setLevel(logging.ERROR)  # it warns of colours, once a figure

_MAX_XMP_BYTES = 100_000
MAX_PAGES = 1_000
SCAN = ": a scan; stages.parsed.run.pdf=docling reads it"
_SMALLER, _HIGHER, _LEVEL = 0.8, 0.15, 0.05
"""Of the size of a digit: what is this small, and this far above its foot and its head."""
_NUMBER_BEFORE = re.compile(r"\d[.,%]?\Z")
_RAISED = re.compile(r"[+\-\u2212\u2013]?\d[\d,\u2013-]*")
_FRACTION = re.compile(r"[/\u2044\u2215]\d|[\u2044\u2215]")
_LAYOUT = LAParams(char_margin=1.5)
"""Gaps of more character widths than this split a line: less than any gutter between columns."""
_GLYPH = re.compile(r"\(cid:\d+\)")
"""A glyph of which the font does not tell the character; in its place a mark stays to be seen."""
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LEFT_TO_RIGHT = re.compile(
    r"[A-Za-z0-9\u0660-\u0669\u06f0-\u06f9]"
    r"(?:[^\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]*[A-Za-z0-9\u0660-\u0669\u06f0-\u06f9])?"
)
_SHAPED = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")
_MIRRORED = str.maketrans("()[]{}<>", ")(][}{><")
_FEWEST_LINES = 3
_MOST_GUTTERS = 200
"""Tried on a page or a part of it; one that is all small print takes no minutes."""
_MOSTLY = 5
_FILLED = 0.5
_NARROW = 50.0
"""The width in points of the narrowest column, as of a sidebar with addresses."""
_CLEAR = 8.0
"""The width in points of the narrowest gutter; blanks in lines that meet by chance are less."""
_SAME_LINE = 0.5
_BLANK = 3.0
"""Of a line's height: a wider gap in a row is never a blank between two words."""
_GUTTER_ROWS = 4
"""Rows over which a gap goes on; in justified text blanks stand above each other by chance."""


@dataclass(frozen=True)
class PdfLine:
    """A line of text with its box in points (origin at the foot of the page), size and weight."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    size: float
    bold: bool
    aside: bool = False
    """Whether it stands in a figure or is turned."""


def read_pages(body: bytes) -> list[list[PdfLine]]:
    """The lines of each page in reading order; a page without text gives an empty list.

    Raises Unparsable: "encrypted_pdf", "broken_pdf", or "no_text_layer" where pages hold only
    images or fonts that map to no characters.
    """
    try:
        read = [(lines_of(page), _holds_image(page)) for page in _layouts_of(body)]
    except PDFPasswordIncorrect as error:
        raise Unparsable("encrypted_pdf", "a password is needed") from error
    except Exception as error:  # a damaged file raises almost anything in the parser
        detail = (str(error).splitlines() or [""])[0]
        raise Unparsable("broken_pdf", f"{type(error).__name__} {detail}".strip()) from error
    if not read:
        raise Unparsable("broken_pdf", "the file holds no page")
    pages = [lines for lines, _ in read]
    text = "".join(line.text for page in pages for line in page)
    if not any(char.isalnum() for char in text):
        images = sum(image for _, image in read)
        detail = f"{len(read)} pages without text, {images} with images{SCAN}"
        raise Unparsable("no_text_layer", detail)
    if 10 * text.count(UNKNOWN) > len(text.split()):
        raise Unparsable("no_text_layer", "its fonts map to no characters")
    return pages


def properties(body: bytes) -> Iterator[str]:
    """Yield what a file says of itself: the values of its Info, then its XMP; none if damaged."""
    try:
        document = PDFDocument(PDFParser(io.BytesIO(body)))
        told = [resolve1(value) for info in document.info for value in info.values()]
        packet = resolve1(document.catalog.get("Metadata"))
        told += [packet.get_data()[:_MAX_XMP_BYTES]] if hasattr(packet, "get_data") else []
    except Exception:  # a damaged file raises almost anything in the parser
        return
    yield from (decode_text(value) for value in told if isinstance(value, bytes))


def _layouts_of(body: bytes) -> Iterator[LTPage]:
    resources = SymbolFonts()
    device = PDFPageAggregator(resources, laparams=None)
    interpreter = PDFPageInterpreter(resources, device)
    for page in PDFPage.get_pages(io.BytesIO(body), maxpages=MAX_PAGES):
        interpreter.process_page(page)
        yield device.get_result()


def lines_of(page: LTPage) -> list[PdfLine]:
    """The lines of a page in reading order: its own text, then that of figures and turned text.

    Where figures hold most of the text, as where a page is one, they are read with the page.
    """
    own = list(_chars(page, figures=False))
    every = list(_chars(page, figures=True))
    mend_micro(every)
    inner = every[len(own) :]
    if len(inner) > _MOSTLY * len(own):
        own, inner = every, []
    lines = in_reading_order(list(_lines(page, own)))
    said = {line.text for line in lines}
    for chars in (inner, *(_turned(every, sign) for sign in (1, -1))):
        more = in_reading_order(list(_lines(page, chars)))
        lines += [replace(line, aside=True) for line in more if line.text not in said]
    return lines


def in_reading_order(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Order the lines of a page: what is above two columns, the left one, the right one, the rest.

    A recursive cut (Nagy and Seth 1984) along the longest gutter, an empty strip with text that
    fills a column on both sides (Breuel 2002), so that a column may hold columns.
    """
    return _ordered(_without_blanks(_rows(lines)))


def _ordered(lines: Sequence[PdfLine]) -> list[PdfLine]:
    rows = _rows(lines)
    gutter = _longest_gutter(rows)
    if gutter is None:
        return [line for row in rows for line in row]
    above, below = rows[: gutter.first], rows[gutter.last + 1 :]
    left, right = _sides(rows, gutter)
    parts = ([line for row in above for line in row], left, right)
    return [
        *(line for part in parts for line in _ordered(part)),
        *_ordered([line for row in below for line in row]),
    ]


class _Gutter(NamedTuple):
    """An empty strip from row `first` to row `last`, and its sides in points."""

    first: int
    last: int
    left: float
    right: float


def _longest_gutter(rows: Sequence[Sequence[PdfLine]]) -> _Gutter | None:
    """The gutter with most lines on the side that has fewer."""
    best: tuple[int, _Gutter | None] = (_FEWEST_LINES - 1, None)
    tried: list[_Gutter] = []
    for number, row in enumerate(rows):
        for before, after in pairwise(row):
            if after.left - before.right < _CLEAR or len(tried) == _MOST_GUTTERS:
                continue
            if any(_holds(gutter, number, before.right, after.left) for gutter in tried):
                continue
            gutter = _gutter_at(rows, number, before.right, after.left, len(rows))
            tried.append(gutter)
            sides = _sides(rows, gutter)
            fewer = min(len(_rows(side)) for side in sides) if all(sides) else 0
            if fewer > best[0] and all(_fills(side) for side in sides):
                best = (fewer, gutter)
    return best[1]


def _holds(gutter: _Gutter, number: int, left: float, right: float) -> bool:
    """Whether a gap of a row is a part of the gutter."""
    inside = left <= gutter.left and gutter.right <= right
    return inside and gutter.first <= number <= gutter.last


def _gutter_at(
    rows: Sequence[Sequence[PdfLine]], number: int, left: float, right: float, most: int
) -> _Gutter:
    """Follow a gap of a row up and down, over at most so many rows, as long as it is clear."""
    ends = [number, number]
    for end, step in enumerate((-1, 1)):
        while 0 <= (following := ends[end] + step) < len(rows) and ends[1] - ends[0] < most:
            narrowed = _narrowed(rows[following], left, right)
            if narrowed is None:
                break
            left, right = narrowed
            ends[end] = following
    return _Gutter(ends[0], ends[1], left, right)


def _narrowed(row: Sequence[PdfLine], left: float, right: float) -> tuple[float, float] | None:
    """What a row leaves of a gap; None if that is no gutter."""
    for line in row:
        if line.right > left and line.left < right:
            options = ((max(left, line.right), right), (left, min(right, line.left)))
            left, right = max(options, key=lambda each: each[1] - each[0])
            if right - left < _CLEAR:
                return None
    return left, right


def _sides(
    rows: Sequence[Sequence[PdfLine]], gutter: _Gutter
) -> tuple[list[PdfLine], list[PdfLine]]:
    lines = [line for row in rows[gutter.first : gutter.last + 1] for line in row]
    left = [line for line in lines if line.right <= gutter.left]
    return left, [line for line in lines if line.left >= gutter.right]


def _fills(lines: Sequence[PdfLine]) -> bool:
    """Whether lines fill a column, which the cells of a table and the numbers of a list do not.

    Wide blanks of justified text split a line, so the pieces of a row count together.
    """
    width = max(line.right for line in lines) - min(line.left for line in lines)
    filled = sum(line.right - line.left for line in lines)
    return width >= _NARROW and filled >= _FILLED * len(_rows(lines)) * width


def _rows(lines: Sequence[PdfLine]) -> list[list[PdfLine]]:
    """Sort lines from the top; the pieces of a row go from left to right."""
    rows: list[list[PdfLine]] = []
    for line in sorted(lines, key=lambda line: (-line.top, line.left)):
        if rows and any(side_by_side(each, line) for each in rows[-1]):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.left) for row in rows]


def side_by_side(one: PdfLine, other: PdfLine) -> bool:
    """Whether two lines stand in one row."""
    both = min(one.top, other.top) - max(one.bottom, other.bottom)
    return both >= _SAME_LINE * min(one.top - one.bottom, other.top - other.bottom)


def _without_blanks(rows: Sequence[Sequence[PdfLine]]) -> list[PdfLine]:
    """Join the pieces of each row at blanks, and leave them apart at gutters.

    The wide blanks of justified text end where the next row begins; a gutter goes on.
    """
    joined: list[PdfLine] = []
    for number, row in enumerate(rows):
        last = row[0]
        for piece in row[1:]:
            gap = piece.left - last.right
            blank = gap < _BLANK * min(last.top - last.bottom, piece.top - piece.bottom)
            gutter = _gutter_at(rows, number, last.right, piece.left, _GUTTER_ROWS)
            if blank and gutter.last - gutter.first < _GUTTER_ROWS - 1:
                last = _join(last, piece)
            else:
                joined.append(last)
                last = piece
        joined.append(last)
    return joined


def _join(one: PdfLine, other: PdfLine) -> PdfLine:
    longer = max(one, other, key=lambda line: len(line.text))
    both = [one.text, other.text]
    return PdfLine(
        " ".join(both[::-1] if _is_right_to_left("".join(both)) else both),
        one.left,
        other.right,
        min(one.bottom, other.bottom),
        max(one.top, other.top),
        longer.size,
        longer.bold,
    )


def _chars(node: LTContainer, figures: bool) -> Iterator[LTChar]:  # type: ignore[type-arg]
    """The characters of a page, then those of the figures in it."""
    yield from (child for child in node if isinstance(child, LTChar))
    for child in node if figures else ():
        if isinstance(child, LTFigure):
            yield from _chars(child, figures)


def _turn(char: LTChar) -> int:
    """1 for a character that is read upwards, -1 for one that is read downwards, else 0."""
    across, up = char.matrix[:2]
    return 0 if abs(up) <= abs(across) else 1 if up > 0 else -1


def _turned(chars: Iterable[LTChar], sign: int) -> list[LTChar]:
    """The characters that are read upwards or downwards, as if the page were turned for them."""
    found = []
    for char in chars:
        if _turn(char) == sign:
            turned = copy.copy(char)
            box = (char.y0, -char.x1, char.y1, -char.x0)
            turned.set_bbox(box if sign > 0 else (-char.y1, char.x0, -char.y0, char.x1))
            turned.matrix, turned.size = (1, 0, 0, 1, 0, 0), turned.height
            found.append(turned)
    return found


def _lines(page: LTPage, chars: Iterable[LTChar]) -> Iterator[PdfLine]:
    upright = list(_printed([char for char in chars if not _turn(char)]))
    for found in page.group_objects(_LAYOUT, upright) if upright else ():
        if (line := _line(found)) is not None:
            yield line


def _printed(chars: Sequence[LTChar]) -> Iterator[LTChar]:
    """Leave out a blank over which the next letter is set, as some journals do after a hyphen."""
    for char, following in zip_longest(chars, chars[1:]):
        over = following is not None and abs(following.x0 - char.x0) < char.width / 2
        if not (over and char.get_text() == " "):
            yield char


def _line(line: LTTextLine) -> PdfLine | None:
    chars = [char for char in line if isinstance(char, LTChar)]
    told = _with_powers(line)
    if _is_right_to_left(told) and chars[0].x0 < chars[-1].x0:
        told = _logical([item.get_text() for item in line if isinstance(item, LTText)])
    text = " ".join(_GLYPH.sub(UNKNOWN, told).split())
    if not text or not chars:
        return None
    size = Counter(round(2 * char.size) / 2 for char in chars).most_common(1)[0][0]
    bold = sum("bold" in char.fontname.lower() for char in chars) > len(chars) / 2
    return PdfLine(text, line.x0, line.x1, line.y0, line.y1, size, bold)


def _with_powers(line: LTTextLine) -> str:
    """The text of a line, a number that is raised behind a number with "^": 10^6 is not 106.

    A raised number before a stroke and a number may be of a fraction, and stays as it is.
    """
    items = [item for item in line if isinstance(item, LTText)]
    pieces = [item.get_text() for item in items]
    for at in range(1, len(items)):
        before = _NUMBER_BEFORE.search("".join(pieces[max(0, at - 2) : at]))
        digit = items[at - 1]
        if before is None or not isinstance(digit, LTChar):
            continue
        run = list(takewhile(partial(_is_raised, digit), items[at:]))
        said = "".join(item.get_text() for item in run)
        following = "".join(pieces[at + len(run) : at + len(run) + 2])
        if _RAISED.fullmatch(said) and not _FRACTION.match(following):
            pieces[at] = f"^{pieces[at]}"
    return "".join(pieces)


def _is_raised(digit: LTChar, item: object) -> bool:
    """Whether a sign is set smaller and higher than the digit before it."""
    if not isinstance(item, LTChar) or item.size > _SMALLER * digit.size:
        return False
    foot, head = item.y0 - digit.y0, item.y1 - digit.y1
    if item.fontname != digit.fontname:  # whose boxes may reach lower or higher
        foot = item.matrix[5] - digit.matrix[5]
    return foot > _HIGHER * digit.size and head > -_LEVEL * digit.size


def _is_right_to_left(text: str) -> bool:
    return 2 * len(_RIGHT_TO_LEFT.findall(text)) > sum(char.isalpha() for char in text)


def _logical(pieces: Sequence[str]) -> str:
    """What is read from the right, of pieces as they stand from the left; numbers and Latin stay.

    Letters in the shape that they have within a word become plain ones.
    """
    text = "".join(reversed(pieces)).translate(_MIRRORED)
    text = _LEFT_TO_RIGHT.sub(lambda run: run[0][::-1].translate(_MIRRORED), text)
    return _SHAPED.sub(lambda each: unicodedata.normalize("NFKC", each[0]), text)


def _holds_image(page: LTPage) -> bool:
    return any(isinstance(child, (LTFigure, LTImage)) for child in page)
