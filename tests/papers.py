"""Papers as PDF files: text set in one or two columns with running headers, or pictures of it."""

from __future__ import annotations

import difflib
import io
import zipfile
from collections.abc import Sequence

from PIL import Image, ImageDraw
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

Sections = Sequence[tuple[str, str]]
_MARGIN, _GUTTER, _LEADING = 54.0, 20.0, 12.0
_BODY = ("Times-Roman", 10.0)
_HEADING = ("Times-Bold", 12.0)


def paper_pdf(title: str, sections: Sections, *, columns: int = 1, hyphens: bool = True) -> bytes:
    """Set a paper: title over the full width, text in columns, header and page number on each page.

    With `hyphens` long words are broken where a line ends.
    """
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    width, height = A4
    wide = (width - 2 * _MARGIN - (columns - 1) * _GUTTER) / columns
    page, column = 1, 0
    _furniture(canvas, page)
    y = height - _MARGIN - 20
    for line in _wrapped(title, ("Times-Bold", 18.0), width - 2 * _MARGIN, hyphens=False):
        canvas.setFont("Times-Bold", 18)
        canvas.drawString(_MARGIN, y, line)
        y -= 22
    top = y = y - 6
    for heading, text in sections:
        lines = [(line, _HEADING) for line in _wrapped(heading, _HEADING, wide, hyphens=False)]
        lines += [(line, _BODY) for line in _wrapped(text, _BODY, wide, hyphens=hyphens)]
        for number, (line, (font, size)) in enumerate(lines):
            if y < _MARGIN + (_LEADING if number else 3 * _LEADING):
                column += 1
                if column == columns:
                    canvas.showPage()
                    page, column, top = page + 1, 0, height - _MARGIN - 20
                    _furniture(canvas, page)
                y = top
            canvas.setFont(font, size)
            canvas.drawString(_MARGIN + column * (wide + _GUTTER), y, line)
            y -= _LEADING
        y -= 8
    canvas.save()
    return stream.getvalue()


def scanned_pdf(text: str) -> bytes:
    """A page that is a picture of text."""
    picture = Image.new("L", (600, 800), 255)
    ImageDraw.Draw(picture).text((40, 40), text, fill=0)
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    canvas.drawImage(ImageReader(picture), 0, 0, *A4)
    canvas.save()
    return stream.getvalue()


def word_file(paragraphs: Sequence[tuple[str, str]]) -> bytes:
    """A .docx of paragraphs, each with the name of its style."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name}">'
        f'<w:name w:val="heading {name[-1]}"/></w:style>'
        for name in ("Heading1", "Heading2")
    )
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        packed.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types">'
            f'<Default Extension="rels" ContentType="{rels}"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        )
        packed.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}"'
            ' Target="word/document.xml"/></Relationships>',
        )
        packed.writestr(
            "word/_rels/document.xml.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1"'
            f' Type="{office}/styles" Target="styles.xml"/></Relationships>',
        )
        packed.writestr("word/styles.xml", f'<w:styles xmlns:w="{space}">{styles}</w:styles>')
        packed.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>',
        )
    return stream.getvalue()


def empty_zip() -> bytes:
    """An archive without files."""
    stream = io.BytesIO()
    zipfile.ZipFile(stream, "w").close()
    return stream.getvalue()


def recovered(source: str, text: str) -> float:
    """F1 of the characters that stand in both texts in the same order, matched by whole words."""
    wanted, found = source.split(), text.split()
    matcher = difflib.SequenceMatcher(None, wanted, found, autojunk=False)
    same = sum(
        len(word)
        for block in matcher.get_matching_blocks()
        for word in wanted[block.a : block.a + block.size]
    )
    return 2 * same / max(1, len("".join(wanted)) + len("".join(found)))


def _furniture(canvas: Canvas, page: int) -> None:
    canvas.setFont("Times-Italic", 8)
    canvas.drawString(_MARGIN, A4[1] - 30, f"Journal of Invented Trials 2020; 12: {100 + page}")
    canvas.drawCentredString(A4[0] / 2, 30, str(100 + page))


def _wrapped(text: str, font: tuple[str, float], wide: float, *, hyphens: bool) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if stringWidth(longer, *font) <= wide:
            line = longer
            continue
        cut = len(word) // 2
        broken = f"{line} {word[:cut]}-"
        if hyphens and word.isalpha() and len(word) > 7 and stringWidth(broken, *font) <= wide:
            lines.append(broken.strip())
            line = word[cut:]
        else:
            lines.append(line)
            line = word
    return [*lines, line] if line else lines
