"""The lines of a PDF in reading order, through pdfminer.six: columns, sizes, pages without text."""

from __future__ import annotations

import io
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pdfminer.high_level import extract_pages
from pdfminer.layout import LAParams, LTChar, LTContainer, LTFigure, LTImage, LTPage, LTTextLine
from pdfminer.pdfdocument import PDFPasswordIncorrect

from srrag.corpus.parsed import Unparsable

logging.getLogger("pdfminer").setLevel(logging.ERROR)  # it warns of colours, once a figure

Floats = npt.NDArray[np.float64]

MAX_PAGES = 1_000
_CHAR_MARGIN = 1.5
"""Gaps of more character widths than this split a line: less than any gutter between columns."""
_STEPS = np.linspace(-0.4, 0.4, 61)
_CROSSING_SHARE = 0.3
_COLUMN_SHARE = 0.05
"""Of a page's lines; on a last page the right column may hold few."""
_FILLED = 0.5
_NARROW = 50.0
"""The width in points of the narrowest column, as of a sidebar with addresses."""
_CLEAR = 8.0
"""The width in points of the narrowest gutter; blanks in lines that meet by chance are less."""
_ROW_POINTS = 4.0
_GAPS_TRIED = 3
_SAME_LINE = 0.5


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


def read_pages(body: bytes) -> list[list[PdfLine]]:
    """The lines of each page in reading order; a page without text gives an empty list.

    Raises Unparsable: "encrypted_pdf", "broken_pdf", or "no_text_layer" where pages hold only
    images or fonts that map to no characters.
    """
    layout = LAParams(char_margin=_CHAR_MARGIN, boxes_flow=None, all_texts=True)
    try:
        found = list(extract_pages(io.BytesIO(body), maxpages=MAX_PAGES, laparams=layout))
        pages = [in_reading_order(list(_lines(page))) for page in found]
    except PDFPasswordIncorrect as error:
        raise Unparsable("encrypted_pdf", "a password is needed") from error
    except Exception as error:  # a damaged file raises almost anything in the parser
        detail = (str(error).splitlines() or [""])[0]
        raise Unparsable("broken_pdf", f"{type(error).__name__} {detail}".strip()) from error
    if not found:
        raise Unparsable("broken_pdf", "the file holds no page")
    text = "".join(line.text for page in pages for line in page)
    if not any(char.isalnum() for char in text):
        images = sum(_holds_image(page) for page in found)
        detail = f"{len(found)} pages without text, {images} with images: recognise the text first"
        raise Unparsable("no_text_layer", detail)
    if 10 * text.count("(cid:") > len(text.split()):
        raise Unparsable("no_text_layer", "its fonts map to no characters")
    return pages


def in_reading_order(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Order the lines of a page: columns from left to right, between the lines that cross them.

    A recursive XY cut (Nagy and Seth 1984): a column may hold columns, and where no gutter goes
    through the page, its widest gaps from side to side are tried as borders of two layouts.
    """
    lines = _downwards(lines)
    gutter = _gutter(lines)
    if gutter is None:
        above, below = _layouts(lines)
        return [*in_reading_order(above), *in_reading_order(below)] if above else lines
    ordered: list[PdfLine] = []
    band: list[PdfLine] = []
    for line in lines:
        if line.left < gutter < line.right:
            ordered += [*_columns(band, gutter), line]
            band = []
        else:
            band.append(line)
    return [*ordered, *_columns(band, gutter)]


def _columns(band: Sequence[PdfLine], gutter: float) -> Iterator[PdfLine]:
    yield from in_reading_order([line for line in band if line.right <= gutter])
    yield from in_reading_order([line for line in band if line.right > gutter])


def _layouts(lines: Sequence[PdfLine]) -> tuple[list[PdfLine], list[PdfLine]]:
    """The lines above and below a gap, if that shows the gutter of either; else nothing above."""
    feet = np.minimum.accumulate([line.bottom for line in lines])
    gaps = [(float(feet[i - 1]) - lines[i].top, i) for i in range(1, len(lines))]
    for _, i in sorted(gaps, reverse=True)[:_GAPS_TRIED]:
        if _gutter(lines[:i]) is not None or _gutter(lines[i:]) is not None:
            return list(lines[:i]), list(lines[i:])
    return [], list(lines)


def _gutter(lines: Sequence[PdfLine]) -> float | None:
    """Where the fewest lines cross, if text that fills its column stands on both sides."""
    if len(lines) < 6:
        return None
    lefts, rights, feet = np.array([(line.left, line.right, line.bottom) for line in lines]).T
    left, right = lefts.min(), rights.max()
    places = np.unique(np.concatenate([rights, (left + right) / 2 + _STEPS * (right - left)]))
    crossing = ((lefts < places[:, None]) & (places[:, None] < rights)).sum(axis=1)
    order = np.lexsort((places, abs(places - (left + right) / 2), crossing))
    for place, crossed in zip(places[order], crossing[order], strict=True):
        if crossed > _CROSSING_SHARE * len(lines):
            return None
        before, after = rights <= place, lefts >= place
        sides = [(lefts[side], rights[side], feet[side]) for side in (before, after)]
        few = _COLUMN_SHARE * len(lines)
        if any(len(side[0]) < max(1.0, few) for side in sides) or not all(
            _fills(*side) for side in sides
        ):
            continue
        if lefts[after].min() - rights[before].max() >= _CLEAR:
            return float(place)
    return None


def _fills(lefts: Floats, rights: Floats, feet: Floats) -> bool:
    """Whether lines fill a column, which the cells of a table and the numbers of a list do not.

    Wide blanks of justified text split a line, so the pieces of a row count together.
    """
    width = rights.max() - lefts.min()
    rows = 1 + int((np.diff(np.sort(feet)) > _ROW_POINTS).sum())
    return bool(width >= _NARROW and (rights - lefts).sum() >= _FILLED * rows * width)


def _downwards(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Sort lines from the top; pieces on one line go from left to right."""
    rows: list[list[PdfLine]] = []
    for line in sorted(lines, key=lambda line: (-line.top, line.left)):
        last = rows[-1][0] if rows else None
        height = line.top - line.bottom
        if last is not None and abs(last.bottom - line.bottom) <= _SAME_LINE * height:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: line.left)]


def _lines(node: LTContainer) -> Iterator[PdfLine]:  # type: ignore[type-arg]
    for child in node:
        if isinstance(child, LTTextLine):
            if (line := _line(child)) is not None:
                yield line
        elif isinstance(child, LTContainer):
            yield from _lines(child)


def _line(line: LTTextLine) -> PdfLine | None:
    text = " ".join(line.get_text().split())
    chars = [char for char in line if isinstance(char, LTChar)]
    if not text or not chars:
        return None
    size = Counter(round(2 * char.size) / 2 for char in chars).most_common(1)[0][0]
    bold = sum("bold" in char.fontname.lower() for char in chars) > len(chars) / 2
    return PdfLine(text, line.x0, line.x1, line.y0, line.y1, size, bold)


def _holds_image(page: LTPage) -> bool:
    return any(isinstance(child, (LTFigure, LTImage)) for child in page)
