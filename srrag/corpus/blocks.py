"""Sections and numbered atomic blocks of a cleaned, Markdown-like document (SR-RAG, section 4.1).

A line scanner rather than a CommonMark parser: chunking needs exact character spans that cover
the text, in linear time on hostile input, and nothing of the inline syntax.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

BlockKind = Literal["paragraph", "list", "table", "code", "heading"]

MAX_TITLE_CHARS = 120
"""Maximum characters of a heading in a section path; longer ones are cut."""

_ATX = re.compile(r"(#{1,6})(?:[ \t]+|$)")
_FENCE = re.compile(r"(`{3,}|~{3,})([^\n]*)")
_BULLET = re.compile(r"[-*+•‣▪](?:[ \t]+|$)")
_NUMBER = re.compile(r"(\d{1,3})[.)](?:[ \t]+|$)")
_RULE = re.compile(r"(?:-[ \t]*){3,}$|(?:\*[ \t]*){3,}$|(?:_[ \t]*){3,}$")
_UNDERLINE = re.compile(r"={3,}$|-{3,}$")
_TABLE_RULE = re.compile(r"[|:\- \t]+$")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list, table, code block or lone heading: text[start:end], no outer blanks."""

    kind: BlockKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """Consecutive blocks under one heading; `path` is "Methods > Participants", "" before any."""

    path: str
    blocks: tuple[Block, ...]


class _Line(NamedTuple):
    """A line's first and last non-blank character and what it could open (one code letter)."""

    start: int
    end: int
    indent: int
    code: str  # "" blank, h ATX, f fence, r rule, l item, o item that cannot interrupt, t row, p


class _Break(NamedTuple):
    """A thematic break; it belongs to the block before it, or forms a block if there is none."""

    start: int
    end: int


class _Heading(NamedTuple):
    start: int
    end: int
    level: int
    title: str


def split_sections(text: str, title: str = "") -> list[Section]:
    """Split a document into sections of blocks that hold every non-blank character once, in order.

    A heading's line belongs to the first block under it. An empty heading joins the first block of
    the subsection that follows, or forms a block if none follows. The paths omit a level-one
    heading that repeats `title`. Without headings the whole text is one section. Takes time linear
    in the number of characters.
    """
    sections: list[Section] = []
    blocks: list[Block] = []
    trail: list[tuple[int, str]] = []
    path = ""
    pending: _Heading | None = None
    for item in _scan(text):
        if isinstance(item, _Heading):
            if blocks:
                sections.append(Section(path, tuple(blocks)))
                blocks = []
            elif pending is not None and item.level <= pending.level:
                alone = Block("heading", pending.start, pending.end)
                sections.append(Section(path, (alone,)))
                pending = None
            pending = item._replace(start=pending.start) if pending is not None else item
            while trail and trail[-1][0] >= item.level:
                trail.pop()
            repeats = item.level == 1 and _folded(item.title) == _folded(title[:MAX_TITLE_CHARS])
            trail.append((item.level, "" if repeats else item.title))
            path = " > ".join(name for _, name in trail if name)
        elif isinstance(item, _Break) and blocks:
            blocks[-1] = replace(blocks[-1], end=item.end)
        else:
            start = item.start if pending is None else pending.start
            kind = item.kind if isinstance(item, Block) else "paragraph"
            blocks.append(Block(kind, start, item.end))
            pending = None
    if pending is not None:
        blocks.append(Block("heading", pending.start, pending.end))
    if blocks:
        sections.append(Section(path, tuple(blocks)))
    return sections


def _folded(title: str) -> str:
    return " ".join(title.split()).casefold()


def _scan(text: str) -> Iterator[Block | _Break | _Heading]:
    """Blocks, thematic breaks and headings in order."""
    lines = _lines(text)
    closers = _fence_closers(text, lines)
    i = 0
    while i < len(lines):
        line = lines[i]
        if not line.code:
            i += 1
            continue
        if line.code == "h":
            yield _atx(text, line)
            i += 1
            continue
        if line.code == "r":
            yield _Break(line.start, line.end)
            i += 1
            continue
        if line.code == "p" and _is_setext(text, lines, i):
            level = 1 if text[lines[i + 1].start] == "=" else 2
            title = text[line.start : line.end][:MAX_TITLE_CHARS]
            yield _Heading(line.start, lines[i + 1].end, level, title)
            i += 2
            continue
        kind, j = _block(text, lines, closers, i)
        yield Block(kind, line.start, lines[j - 1].end)
        i = j


def _block(text: str, lines: list[_Line], closers: dict[int, int], i: int) -> tuple[BlockKind, int]:
    """Return the kind of the block that opens on line i, and the number of the line after it."""
    code = lines[i].code
    if code == "f" and i in closers:
        return "code", closers[i] + 1
    if code in "lo":
        return "list", _list_end(lines, i)
    if code == "t" and _is_table(text, lines, i):
        j = i + 1
        while j < len(lines) and lines[j].code == "t":
            j += 1
        return "table", j
    j = i + 1
    while j < len(lines) and lines[j].code not in ("", "h", "r", "l"):
        if (lines[j].code == "f" and j in closers) or (
            lines[j].code == "t" and _is_table(text, lines, j)
        ):
            break
        j += 1
    return "paragraph", j


def _list_end(lines: list[_Line], i: int) -> int:
    """Return the line after a list; blank lines inside precede an item or an indented line."""
    end = j = i + 1
    while j < len(lines):
        line = lines[j]
        if line.code in ("h", "r") or (line.code == "f" and line.indent < 2):
            break
        if not line.code:
            j += 1
            continue
        after_blank = j > end
        if after_blank and line.code not in ("l", "o") and line.indent < 2:
            break
        j += 1
        end = j
    return end


def _is_table(text: str, lines: list[_Line], i: int) -> bool:
    """Whether a table opens: the row starts with a bar, or a delimiter row follows it."""
    if text[lines[i].start] == "|":
        return True
    if i + 1 >= len(lines) or lines[i + 1].code != "t":
        return False
    below = text[lines[i + 1].start : lines[i + 1].end]
    return "-" in below and _TABLE_RULE.match(below) is not None


def _is_setext(text: str, lines: list[_Line], i: int) -> bool:
    """Whether one line is underlined by = or -; under several lines it is a thematic break."""
    if i + 1 >= len(lines):
        return False
    below = lines[i + 1]
    return below.code in ("p", "r") and bool(_UNDERLINE.match(text, below.start, below.end))


def _fence_closers(text: str, lines: list[_Line]) -> dict[int, int]:
    """Return the closing line of each code fence; a fence that never closes opens no block.

    Otherwise one stray fence would hide every later heading of its document.
    """
    fences = [i for i, line in enumerate(lines) if line.code == "f"]
    longest_bare = {"`": 0, "~": 0}
    closable: dict[int, bool] = {}
    runs: dict[int, tuple[str, int, bool]] = {}
    for i in reversed(fences):
        match = _FENCE.match(text, lines[i].start, lines[i].end)
        assert match is not None
        mark, size, bare = match[1][0], len(match[1]), not match[2].strip()
        runs[i] = (mark, size, bare)
        closable[i] = longest_bare[mark] >= size
        if bare:
            longest_bare[mark] = max(longest_bare[mark], size)
    closers: dict[int, int] = {}
    opened: int | None = None
    for i in fences:
        mark, size, bare = runs[i]
        if opened is None:
            opened = i if closable[i] else None
        elif bare and mark == runs[opened][0] and size >= runs[opened][1]:
            closers[opened] = i
            opened = None
    return closers


def _atx(text: str, line: _Line) -> _Heading:
    content = text[line.start : line.end]
    match = _ATX.match(content)
    assert match is not None
    title = content[match.end() :].rstrip()
    closed = title.rstrip("#")
    if closed != title and (not closed or closed[-1].isspace()):
        title = closed
    return _Heading(line.start, line.end, len(match[1]), title.strip()[:MAX_TITLE_CHARS].rstrip())


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    position = 0
    for raw in text.split("\n"):
        body = raw.lstrip()
        if body:
            indent = len(raw) - len(body)
            start = position + indent
            body = body.rstrip()
            lines.append(_Line(start, start + len(body), indent, _code(body, indent)))
        else:
            lines.append(_Line(position, position, 0, ""))
        position += len(raw) + 1
    return lines


def _code(body: str, indent: int) -> str:
    """Return the code letter of a line; headings, fences and rules are indented by at most 3."""
    first = body[0]
    if indent < 4:
        if first == "#" and _ATX.match(body):
            return "h"
        if first in "`~" and _FENCE.match(body) and "`" not in body.lstrip("`"):
            return "f"
        if first in "-*_" and _RULE.match(body):
            return "r"
    if first in "-*+•‣▪" and _BULLET.match(body):
        return "l"
    if first.isdigit():
        number = _NUMBER.match(body)
        if number:
            # A wrapped line may begin with "12." by chance, so only "1." interrupts a paragraph.
            return "l" if number[1] == "1" else "o"
    return "t" if "|" in body else "p"
