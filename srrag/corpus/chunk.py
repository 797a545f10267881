"""Chunks: groups of neighbouring blocks of one section (SR-RAG, section 4.1)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.ids import content_id
from srrag.core.schema import UNITS
from srrag.core.step import Function, Place, Step
from srrag.corpus.blocks import Block, split_sections

BYTES_PER_TOKEN = 4.5
"""UTF-8 bytes a WordPiece token: median over 316 clinical abstracts, 3.9 to 5.2 in 80 % of them."""

MAX_BLOCKS, MAX_CHARS = 40, 12_000
"""Blocks and characters of a section that are packed together; a longer one is several runs."""

MAX_NOTE_TOKENS = 60
_CAPTION = re.compile(r"(?:table|tab\.|figure|fig\.|box)\s*[\w.-]*\d", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ChunkBySections(Step):
    """Pack the blocks of each section into chunks that partition the document's text.

    Chunks aim at `target_tokens` (Table S3: 320; UTF-8 bytes / 4.5). The paper has a model group
    the blocks; here neighbours are packed greedily.
    """

    version: ClassVar[int] = 3
    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "text", "grade")
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    target_tokens: int = 320

    def __post_init__(self) -> None:
        """Raise ValueError for a target that no chunk meets."""
        if self.target_tokens < 1:
            raise ValueError(f"target_tokens is {self.target_tokens}: it has to be 1 or more")

    def identity(self) -> dict[str, Any]:
        """The prompt of a model that could group blocks once, so that roots of then stand."""
        return {"group_blocks.md": _PROMPT_OF_OLD}

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""
        return partial(_chunked, target=self.target_tokens)


_PROMPT_OF_OLD = "f4bfa5224976bd0adc69a97c1cfb146921f458788cc3172c543e39bf42c4c865"


def _chunked(batch: pa.Table, target: int) -> pa.Table:
    """The chunks of the documents that no earlier stage rejected."""
    if "reject" in batch.column_names:
        batch = batch.filter(pc.is_null(batch["reject"]))
    rows = []
    for document in batch.select(ChunkBySections.reads).to_pylist():
        text = document["text"]
        chunks = [
            _chunk(document, section.path, run[group[0] - 1].start, run[group[-1] - 1].end)
            for section in split_sections(text, document["title"])
            for run in _runs(section.blocks)
            for group in pack_units(_units(text, run, target), target)
        ]
        rows += [{**chunk, "order": order} for order, chunk in enumerate(chunks)]
    return pa.Table.from_pylist(rows, schema=UNITS)


def _runs(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Cut the blocks of a section into runs within the bounds."""
    run: list[Block] = []
    chars = 0
    for block in blocks:
        size = block.end - block.start
        if run and (len(run) >= MAX_BLOCKS or chars + size > MAX_CHARS):
            yield run
            run, chars = [], 0
        run.append(block)
        chars += size
    if run:
        yield run


Unit = tuple[list[int], int]
"""Neighbouring blocks that stay together, and their tokens."""


def join_blocks(sizes: Sequence[int], kinds: Sequence[str], target: int) -> list[Unit]:
    """Join blocks 1..n that belong together, by their kinds (a `caption` is a kind of paragraph).

    A table, its caption and its notes (the paragraphs of at most MAX_NOTE_TOKENS behind it) stay
    together whatever their length. A list, table or code block joins the paragraph before it if
    both fit the target together.
    """
    units: list[Unit] = []
    table = False
    for i, (size, kind) in enumerate(zip(sizes, kinds, strict=True), 1):
        before = kinds[i - 2] if i > 1 else ""
        fits = bool(units) and units[-1][1] + size <= target
        named = before == "caption" and kind == "table"
        note = table and kind == "paragraph" and size <= MAX_NOTE_TOKENS
        listed = before == "paragraph" and kind in ("list", "table", "code") and fits
        if named or note or (listed and not table):
            units[-1] = ([*units[-1][0], i], units[-1][1] + size)
        else:
            units.append(([i], size))
        table = kind == "table" or note
    return units


def pack_units(units: Sequence[Unit], target: int) -> list[list[int]]:
    """Pack neighbouring units greedily into groups of at most `target` tokens.

    A unit above the target forms its own group.
    """
    groups: list[list[int]] = []
    total = 0
    for ids, size in units:
        if groups and total + size <= target:
            groups[-1] += ids
            total += size
        else:
            groups.append(list(ids))
            total = size
    return groups


def estimate_tokens(text: str) -> int:
    """Estimate the WordPiece tokens of a text from its UTF-8 length, at least one."""
    return max(1, round(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN))


def _units(text: str, blocks: Sequence[Block], target: int) -> list[Unit]:
    said = [text[block.start : block.end] for block in blocks]
    kinds = [
        "caption" if block.kind == "paragraph" and _CAPTION.match(words) else block.kind
        for block, words in zip(blocks, said, strict=True)
    ]
    return join_blocks([estimate_tokens(words) for words in said], kinds, target)


def _chunk(document: dict[str, Any], section: str, start: int, end: int) -> dict[str, Any]:
    return {
        "unit_id": content_id(document["doc_id"], "chunk", str(start), str(end)),
        "doc_id": document["doc_id"],
        "view": "chunk",
        "parent_id": "",
        "section": section,
        "char_start": start,
        "char_end": end,
        "text": document["text"][start:end],
        "num_tokens": 0,
        "grade": document["grade"],
        "repairs": 0,
        "reject": None,
    }
