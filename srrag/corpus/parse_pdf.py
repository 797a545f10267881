"""PDF files: their text layer through pdfminer.six, or the whole page through Docling."""

from __future__ import annotations

import importlib
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from statistics import median
from typing import Any

from srrag.corpus.clean import page_furniture
from srrag.corpus.parse_text import markdown_parts
from srrag.corpus.parsed import Metadata, Parsed, Unparsable, count_words, doi_of, no_heading
from srrag.corpus.pdf_lines import SCAN, UNKNOWN, PdfLine, properties, read_pages, side_by_side

_LARGER = 1.15
_MAX_HEADING_CHARS = 120
_MAX_TITLE_CHARS = 350
_PARAGRAPH_GAP = 1.45
_INDENT_POINTS = 6.0
_SHORT_LINE = 0.85
_WIDE = 0.6
"""Share of a column's width; a heading's shorter line had room for another word."""
_LABELS = frozenset(
    {
        "researcharticle",
        "originalarticle",
        "originalresearch",
        "openaccess",
        "reviewarticle",
        "shortcommunication",
        "review",
    }
)
"""Lines beside a title that say nothing of the paper, without blanks (some are spaced out)."""
_JOURNAL = re.compile(
    r"(?:the )?(?:\w+ ){0,4}(?:journal|annals|archives)(?: (?:of|for)(?: [\w&]+){1,7})?",
    re.IGNORECASE,
)
_KIND = re.compile(r"[A-Z]\w+ (?:\w+ )?[Gg]uidelines?")
"""What a document says of itself below its title, as "NICE guideline"."""
_ENDS = re.compile(r"[.!?:;][\"')\]\d,–-]*$")
_BROKEN_WORD = re.compile(r"[^\W\d_]{2,}-$")
_ITEM = re.compile(r"(?:[•▪‣◦*-]|\(?\d{1,2}[.)])\s+\S")
_SECTION = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2})*\.?\s+)?(?:abstract|summary|background|introduction|aims?|objectives?"
    r"|(?:materials? and |patients and )?methods?|results?|findings|discussion|conclusions?"
    r"|limitations|funding|references|acknowledge?ments|appendix|recommendations?):?",
    re.IGNORECASE,
)
_CAPTION = re.compile(r"(?:fig(?:ure|\.)?|table|box|scheme|chart|plate)\s*[\dA-Z]", re.IGNORECASE)
_SAME_SIZE = 0.5
_EDGE_ROWS = 3
_MOST_BETWEEN = 40
_REFERENCES = re.compile(
    r"(?:\d{1,2}\.?\s+)?(?:references|bibliography|literature cited):?", re.IGNORECASE
)

_YEAR = r"\b((?:19|20)\d\d)\b"
_PRINTED_YEAR = re.compile(
    rf"(?:©|\(c\)|copyright|author\(s\)|\bvolume)\D{{0,20}}{_YEAR}"
    rf"|(?:^|[,;|]\s?)published\b[^.;]{{0,24}}?{_YEAR}"
    rf"|{_YEAR}(?:\s[a-z]{{3,9}})?\W{{1,3}}\d{{1,4}}"
    r"(?:(?:\s?\(\w+\))?:|,?\s?\([\w, -]{1,16}\)),?\s?\w?\d"
    rf"|\d[–-]\d{{1,4}},\s[a-z]{{3,9}}\s{_YEAR}",
    re.IGNORECASE,
)
"""The year of a paper as its first page prints it: © 2015, Published 8 May 2014, 2015, 16:2."""
_Block = tuple[list[PdfLine], int]
"""Lines, and the level of a heading; 0 for a paragraph."""


def to_markdown(pages: Sequence[Sequence[PdfLine]]) -> tuple[str, str]:
    """The title (the largest type on the first page, "" if none stands out) and the Markdown.

    Running headers, footers and page numbers are left out. A paragraph goes on over columns and
    pages; a word that a hyphen breaks at a line's end becomes one word.
    """
    body = _body_size(pages)
    width = _column_width([line for page in pages for line in page])
    outer = [_outer(page, body, width) for page in pages]
    furniture = page_furniture([[line.text for line in page] for page in pages], outer)
    kept = [
        [line for i, line in enumerate(page) if i not in drop and not _is_label(line.text)]
        for page, drop in zip(pages, map(_whole_rows, pages, furniture), strict=True)
    ]
    body = _body_size(kept)
    first = kept[0] if kept else []
    title = _title(first, body)
    lines = [line for page in kept for line in page if line not in title]
    width = _column_width(lines)
    blocks = _mended(_blocks(lines, body, width), body, width)
    text = "\n\n".join(_block(*each) for each in blocks)
    named = join_lines([line.text for line in title])
    kind = next((line.text for line in first if _is_kind(line, body)), "")
    return f"{named}: {kind}" if named and kind and kind not in named else named, text


def printed_year(page: Sequence[PdfLine]) -> int:
    """The year that a first page prints as its paper's, above any references; 0 for none.

    The latest that it was published in, else the latest of a copyright or a citation.
    """
    own = takewhile(lambda line: not _REFERENCES.fullmatch(line.text), page)
    found = [each for line in own for each in _PRINTED_YEAR.findall(line.text)]
    published = max((each[1] for each in found), default="")
    return int(published or max(map(max, found), default=0))


def printed_doi(pages: Sequence[Sequence[PdfLine]]) -> str:
    """The first DOI on the first two pages above the references, "" for none."""
    lines = (line.text for page in pages[:2] for line in page)
    own = " ".join(takewhile(lambda line: not _REFERENCES.fullmatch(line), lines))
    return doi_of(_DEPOSIT.sub("", _WRAPPED.sub(r"\1", own[:_FIRST_CHARS])))


def _outer(page: Sequence[PdfLine], body: float, width: float) -> list[int]:
    """The numbers of the lines in the outer rows of a page that are no lines of its text."""
    feet = sorted({round(line.bottom) for line in page})
    if not feet:
        return []
    low, high = feet[: _EDGE_ROWS + 1][-1], feet[-_EDGE_ROWS - 1 :][0]
    return [
        i
        for i, line in enumerate(page)
        if (line.bottom <= low or line.bottom >= high)
        and not (line.size == body and line.right - line.left > _SHORT_LINE * width)
    ]


def _whole_rows(page: Sequence[PdfLine], drop: Collection[int]) -> set[int]:
    """The lines to drop of which the whole row goes; else a number would leave its table."""
    kept = [line for i, line in enumerate(page) if i not in drop]
    return {i for i in drop if not any(side_by_side(page[i], line) for line in kept)}


def join_lines(lines: Sequence[str]) -> str:
    """Join the lines of a paragraph; a word broken by a hyphen becomes one.

    A hyphen stays where the next line begins with a capital or a digit ("Cochran-" "Mantel",
    "COVID-" "19").
    """
    text = ""
    for line in lines:
        if _BROKEN_WORD.search(text) and line[:1].islower():
            text = text[:-1] + line
        elif text.endswith("-") and not text.endswith(" -"):
            text += line
        else:
            text = f"{text} {line}" if text else line
    return text.replace("\u00ad", "")


def _body_size(pages: Sequence[Sequence[PdfLine]]) -> float:
    """The size of most letters before the list of references, which may outweigh a short paper."""
    sizes: Counter[float] = Counter()
    for line in (line for page in pages for line in page):
        if sizes and _REFERENCES.fullmatch(line.text):
            break
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _title(first: Sequence[PdfLine], body: float) -> list[PdfLine]:
    """The lines of the largest type on the first page, if it is larger than the body's.

    One word, words told twice or followed by a number elsewhere ("Cancer Medicine 2018; 7:1"), are
    a journal's name: the next size is looked at.
    """
    own = [line for line in first if not line.aside]
    sizes = sorted({line.size for line in own if line.size >= _LARGER * body}, reverse=True)
    found = [[line for line in own if line.size == size] for size in sizes]
    said = [line.text.casefold() for line in first]
    titles = [
        lines for lines in found if not _is_name(join_lines([each.text for each in lines]), said)
    ]
    lines = next(iter(titles or found), [])
    return lines if sum(len(line.text) for line in lines) <= _MAX_TITLE_CHARS else []


def _is_name(text: str, said: Iterable[str]) -> bool:
    words = text.casefold().split()
    name = " ".join(words)
    twice = len(words) < 2 or len({*words}) < len(words)
    cited = any(line.partition(name)[2].lstrip(" ,;:(")[:1].isdigit() for line in said)
    short = (len(words) < 5 and twice) or (len(words) < 8 and cited)
    return short or _JOURNAL.fullmatch(text) is not None


def _is_kind(line: PdfLine, body: float) -> bool:
    return line.size > body and _KIND.fullmatch(line.text) is not None


def _is_label(line: str) -> bool:
    return line.replace(" ", "").casefold() in _LABELS


def _blocks(lines: Sequence[PdfLine], body: float, width: float) -> Iterator[_Block]:
    """Yield headings and paragraphs."""
    steps: dict[float, list[float]] = {}
    for above, below in pairwise(lines):
        if above.size == below.size and (step := above.bottom - below.bottom) > 1:
            steps.setdefault(below.size, []).append(step)
    usual_steps = {size: median(each) for size, each in steps.items()}
    block: list[PdfLine] = []
    within = 0
    for line in lines:
        usual = usual_steps.get(line.size, line.size or 1.0)
        if within and _goes_on(block[-1], line, usual, width):
            block.append(line)
            continue
        level = _heading_level(line, body)
        if block and (level or within or _begins(block[-1], line, usual, width)):
            yield block, within
            block = []
        block.append(line)
        within = level
    if block:
        yield block, within


def _block(lines: Sequence[PdfLine], level: int) -> str:
    text = join_lines([line.text for line in lines])
    return f"{'#' * level} {text.strip('# ')}" if level else no_heading(text)


def _mended(blocks: Iterable[_Block], body: float, width: float) -> list[_Block]:
    """Join a paragraph over what stands between its parts, such as a figure or a footnote.

    What stands between comes after it.
    """
    mended: list[_Block] = []
    begun = -1
    for lines, level in blocks:
        first = lines[0]
        other = abs(first.size - body) > _SAME_SIZE or _CAPTION.match(first.text)
        if level or other or first.aside:
            begun = -1 if _SECTION.fullmatch(first.text) else begun
            mended.append((lines, level))
            continue
        if begun >= 0 and len(mended) - begun <= _MOST_BETWEEN:
            last = mended[begun][0][-1]
            full = last.right - last.left > _SHORT_LINE * width
            if first.text[:1].islower() or (full and not _ITEM.match(first.text)):
                mended[begun][0].extend(lines)
                begun = -1 if _ENDS.search(lines[-1].text) else begun
                continue
        mended.append((lines, level))
        begun = -1 if _ENDS.search(lines[-1].text) else len(mended) - 1
    return mended


def _goes_on(above: PdfLine, line: PdfLine, usual: float, width: float) -> bool:
    """Whether a heading that filled its line goes on in the next one."""
    return (
        (above.size, above.bold) == (line.size, line.bold)
        and 0 < above.bottom - line.bottom <= _PARAGRAPH_GAP * max(usual, above.size)
        and above.right - above.left > _WIDE * width
        and not _SECTION.fullmatch(above.text)
        and not _SECTION.fullmatch(line.text)
    )


def _heading_level(line: PdfLine, body: float) -> int:
    """2 for headings in larger type or of a known section, 3 for short bold lines, else 0."""
    if len(line.text) > _MAX_HEADING_CHARS or not any(char.isalpha() for char in line.text):
        return 0
    if _SECTION.fullmatch(line.text):
        return 2
    if line.text.endswith((".", ",", ";")) or line.text[:1].islower():
        return 0
    if line.size >= _LARGER * body:
        return 2
    return 3 if line.bold else 0


def _begins(above: PdfLine, line: PdfLine, usual: float, width: float) -> bool:
    """Whether a line begins a paragraph of its own."""
    if above.aside != line.aside:
        return True
    ended = bool(_ENDS.search(above.text))
    step = above.bottom - line.bottom
    if step < 0:  # the next column or page: a sentence goes on unless it had ended
        other = abs(above.size - line.size) > _SAME_SIZE
        return other or (ended and above.right - above.left < _SHORT_LINE * width)
    if step > _PARAGRAPH_GAP * usual:
        return True
    if _ITEM.match(line.text):
        return ended or above.right - above.left < _SHORT_LINE * width
    return ended and line.left - above.left > _INDENT_POINTS


def _column_width(lines: Sequence[PdfLine]) -> float:
    widths = sorted(line.right - line.left for line in lines)
    return widths[int(0.9 * (len(widths) - 1))] if widths else 0.0


_MAX_PAGES = 1_000
_MAX_FILE_BYTES = 50_000_000
_WRAPPED = re.compile(r"(10\.\d{4,9}/(?:\S*[./-])?)\s(?=(?:[a-z]+\.)*\d{5}|(?<=\d/\s)\S*\d)")
"""A DOI that goes on in the next line; a year would have four digits."""
_DEPOSIT = re.compile(r"10\.(?:5061|5281|6084|17605)/\S*", re.IGNORECASE)
"""DOIs of Dryad, Zenodo, figshare and OSF: of a paper's data or registration."""
_FIRST_CHARS = 8_000
_WORDS_OF_A_PAGE = 300
"""Supposed of a page without text, so that the cover of a scan does not pass for the paper."""


def parse_pdf(body: bytes) -> Parsed:
    """Read the text layer of a PDF as Markdown: columns in order, headings by their type.

    Raises Unparsable: "broken_pdf", "encrypted_pdf", or "no_text_layer" for a scan.
    """
    _check(body)
    pages = read_pages(body)
    title, text = to_markdown(pages)
    metadata: Metadata = {"encoding": "pdf"}
    if empty := sum(not page for page in pages):
        metadata["pages_without_text"] = empty
    words = sum(count_words(line.text) for page in pages for line in page)
    kept = count_words(f"{title} {text}")
    if 10 * kept < _WORDS_OF_A_PAGE * empty:
        raise Unparsable("no_text_layer", f"{empty} of {len(pages)} pages without text{SCAN}")
    if marks := text.count(UNKNOWN):
        metadata["signs_not_read"] = marks
    if words > kept:
        metadata["words_left_out"] = words - kept
    if year := printed_year(pages[0]):
        metadata["year"] = year
    if doi := next(filter(None, map(doi_of, properties(body))), "") or printed_doi(pages):
        metadata["doi"] = doi
    return Parsed(title, text, metadata)


def parse_pdf_docling(body: bytes) -> Parsed:
    """Convert a PDF with Docling (the extra `pdf`), which also reads tables and scans.

    Raises Unparsable("broken_pdf"), or ("missing_extra_pdf") where Docling is not installed.
    """
    _check(body)
    converter, document_stream, failure = _docling()
    stream = document_stream(name="document.pdf", stream=io.BytesIO(body))
    try:
        result = converter.convert(stream, max_num_pages=_MAX_PAGES, max_file_size=_MAX_FILE_BYTES)
    except failure as error:
        raise Unparsable("broken_pdf", str(error).splitlines()[0]) from error
    parsed = markdown_parts(result.document.export_to_markdown(), {})
    return Parsed(parsed.title, parsed.text, {**parsed.metadata, "encoding": "pdf"})


def _check(body: bytes) -> None:
    if b"%PDF-" not in body[:1024]:
        raise Unparsable("broken_pdf", "the file does not begin as a PDF")


@cache
def _docling() -> tuple[Any, Any, Any]:
    """The converter, its stream class and its exception; loaded once a process."""
    try:
        converter = importlib.import_module("docling.document_converter")
        stream = importlib.import_module("docling.datamodel.base_models")
        errors = importlib.import_module("docling.exceptions")
    except ModuleNotFoundError as error:
        raise Unparsable("missing_extra_pdf", "pip install 'srrag[pdf]'") from error
    pdf = stream.InputFormat.PDF
    return (
        converter.DocumentConverter(allowed_formats=[pdf]),
        stream.DocumentStream,
        errors.ConversionError,
    )
