"""Chunks: groups of neighbouring blocks of one section (SR-RAG, section 4.1)."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from srrag.core.rows import live
from srrag.core.schema import UNITS
from srrag.core.spec import content_id
from srrag.core.step import LLMStep
from srrag.corpus.blocks import Block, split_sections
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "group_blocks.md")

MAX_PROMPT_BLOCKS = 64
"""Upper bound of `max_blocks`: the output schema bounds its lists by it."""

BYTES_PER_TOKEN = 4.5
"""UTF-8 bytes a WordPiece token: median over 316 clinical abstracts, 3.9 to 5.2 in 80 % of them."""

BlockId = Annotated[int, Field(ge=1, le=99)]
Group = Annotated[list[BlockId], Field(min_length=1, max_length=MAX_PROMPT_BLOCKS)]


class BlockGroups(Answer):
    """The answer to a grouping prompt: block numbers, a list a group."""

    groups: Annotated[list[Group], Field(max_length=MAX_PROMPT_BLOCKS)]


_CAPTION = re.compile(r"(?:table|tab\.|figure|fig\.|box)\s*[\w.-]*\d", re.IGNORECASE)
MAX_NOTE_TOKENS = 60


class _Part(NamedTuple):
    """Blocks of one section that are grouped together, by one prompt at most."""

    slot: str
    section: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class ChunkBySections(LLMStep):
    """Group the blocks of each section into chunks that partition the document's text.

    A section is one prompt; a long one is several, of at most `max_blocks` blocks and `max_chars`
    characters. A model is asked only where blocks can be grouped in more than one way: they do not
    fit one chunk as a whole, and some neighbours fit. Chunks aim at `target_tokens` (Table S3: 320;
    UTF-8 bytes / 4.5). `repairs` of the first chunk of a prompt counts the repaired
    slips in its answer. If the answer is faulty or misplaces most blocks, one reject row covers the
    blocks of the prompt; the rest of the document is unaffected.
    """

    version: ClassVar[int] = 3

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "text", "grade")
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    target_tokens: int = 320
    max_blocks: int = 40
    max_chars: int = 12_000
    max_tokens: int = 512
    """64 groups of one block, the longest sound answer, are some 380 tokens."""

    def __post_init__(self) -> None:
        """Raise ValueError for bounds that no prompt or answer can meet."""
        if not 2 <= self.max_blocks <= MAX_PROMPT_BLOCKS:
            raise ValueError(f"max_blocks is {self.max_blocks}: 2 to {MAX_PROMPT_BLOCKS} work")
        if self.target_tokens < 1 or self.max_chars < 1:
            raise ValueError("target_tokens and max_chars must be positive")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render a prompt for each run of blocks that can be grouped in more than one way."""
        system = PROMPT.system(target_tokens=self.target_tokens)
        return [
            Prompt(
                row,
                part.slot,
                system,
                _render(document, part),
                BlockGroups,
                max_tokens=self.max_tokens,
            )
            for row, document in live(batch, self.reads)
            for part in self._parts(document)
            if self._open(document["text"], part.blocks)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Pack neighbouring blocks greedily to the target."""
        answers: dict[tuple[int, str], str] = {}
        for row, document in live(batch, self.reads):
            for part in self._parts(document):
                groups = self._packed(document["text"], part.blocks)
                answers[row, part.slot] = json.dumps({"groups": groups})
        return [answers[prompt.row, prompt.slot] for prompt in prompts]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return the fault `nonsense` if most blocks are misplaced."""
        return _nonsense(value.groups, prompt.user.count(_BLOCK_LINE))

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Make the chunks of every section, or one reject for the blocks of a prompt."""
        answers = {
            (prompt.row, prompt.slot): completion
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        rows: list[dict[str, Any]] = []
        for row, document in live(batch, self.reads):
            order = 0
            for part in self._parts(document):
                packed = self._packed(document["text"], part.blocks)
                chunks = _chunks(document, part, packed, answers.get((row, part.slot)))
                rows += [{**chunk, "order": order + i} for i, chunk in enumerate(chunks)]
                order += len(chunks)
        return pa.Table.from_pylist(rows, schema=UNITS)

    def _parts(self, document: dict[str, Any]) -> list[_Part]:
        """Cut sections into runs of blocks within the bounds of a prompt."""
        parts = []
        for number, section in enumerate(split_sections(document["text"], document["title"])):
            runs: list[list[Block]] = []
            chars = 0
            for block in section.blocks:
                size = block.end - block.start
                if not runs or len(runs[-1]) >= self.max_blocks or chars + size > self.max_chars:
                    runs.append([])
                    chars = 0
                runs[-1].append(block)
                chars += size
            parts += [
                _Part(f"s{number}.{i}", section.path, tuple(run)) for i, run in enumerate(runs)
            ]
        return parts

    def _packed(self, text: str, blocks: Sequence[Block]) -> list[list[int]]:
        return pack_units(_units(text, blocks, self.target_tokens), self.target_tokens)

    def _open(self, text: str, blocks: Sequence[Block]) -> bool:
        sizes = [size for _, size in _units(text, blocks, self.target_tokens)]
        some = any(sum(pair) <= self.target_tokens for pair in pairwise(sizes))
        return some and sum(sizes) > self.target_tokens


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


def repair_groups(groups: Sequence[Sequence[int]], n: int) -> tuple[list[list[int]], Counter[str]]:
    """Turn any groups of numbers into runs that partition 1..n, in order.

    The repairs, in order: drop numbers outside 1..n (`unknown`); keep the first mention of a
    repeated number (`repeated`); make a missing number its own group (`missing`); split a group at
    its gaps (`split`, counted once a gap).
    """
    repairs: Counter[str] = Counter()
    owner: dict[int, int] = {}
    for label, group in enumerate(groups):
        for item in group:
            if not 1 <= item <= n:
                repairs["unknown"] += 1
            elif item in owner:
                repairs["repeated"] += 1
            else:
                owner[item] = label
    if missing := n - len(owner):
        repairs["missing"] = missing
    runs: list[list[int]] = []
    closed: set[int] = set()
    for item in range(1, n + 1):
        group_of = owner.get(item)
        if group_of is not None and group_of == owner.get(item - 1):
            runs[-1].append(item)
            continue
        if group_of is not None:
            repairs["split"] += group_of in closed
            closed.add(group_of)
        runs.append([item])
    return runs, +repairs


def estimate_tokens(text: str) -> int:
    """Estimate the WordPiece tokens of a text from its UTF-8 length, at least one."""
    return max(1, round(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN))


def _render(document: dict[str, Any], part: _Part) -> str:
    """Render the user text: one line of JSON for each block."""
    text = document["text"]
    lines = [
        quoted({"id": i, "kind": block.kind, "tokens": estimate_tokens(said), "text": said})
        for i, block in enumerate(part.blocks, 1)
        for said in [text[block.start : block.end]]
    ]
    return PROMPT.user(
        title=quoted(document["title"]),
        section=quoted(part.section),
        num_blocks=len(lines),
        blocks="\n".join(lines),
    )


def _units(text: str, blocks: Sequence[Block], target: int) -> list[Unit]:
    said = [text[block.start : block.end] for block in blocks]
    kinds = [
        "caption" if block.kind == "paragraph" and _CAPTION.match(words) else block.kind
        for block, words in zip(blocks, said, strict=True)
    ]
    return join_blocks([estimate_tokens(words) for words in said], kinds, target)


_BLOCK_LINE = '\n{"id": '
"""Marks the start of each block in the user text; JSON strings contain no line feed."""


def _nonsense(groups: Sequence[Sequence[int]], n: int) -> Fault | None:
    """Return the fault of groups that need more repairs than half the number of blocks."""
    _, repairs = repair_groups(groups, n)
    if 2 * repairs.total() <= n:
        return None
    slips = ", ".join(f"{count} × {kind}" for kind, count in sorted(repairs.items()))
    detail = (
        f"The groups do not fit the blocks 1 to {n} ({slips}). Put every number from 1 to {n} "
        f"into exactly one group, and make each group a run of neighbours."
    )
    return Fault("nonsense", detail)


def _chunks(
    document: dict[str, Any], part: _Part, groups: list[list[int]], answer: Completion | None
) -> list[dict[str, Any]]:
    """Return the chunks of a part, not yet numbered: the `groups` where nobody was asked."""
    n = len(part.blocks)
    repairs = 0
    fault = answer.fault if answer else None
    if answer is not None and fault is None:
        fault = _nonsense(answer.value.groups, n)
        groups, counted = repair_groups(answer.value.groups, n)
        repairs = counted.total()
    if fault is not None:
        reject = {"stage": "chunk", "reason": fault.kind, "detail": fault.detail}
        return [_chunk(document, part, (1, n)) | {"reject": reject}]
    chunks = [_chunk(document, part, (group[0], group[-1])) for group in groups]
    return [chunks[0] | {"repairs": repairs}, *chunks[1:]]


def _chunk(document: dict[str, Any], part: _Part, blocks: tuple[int, int]) -> dict[str, Any]:
    """Return the unit of a run of blocks; `blocks` is the first and the last."""
    start, end = part.blocks[blocks[0] - 1].start, part.blocks[blocks[1] - 1].end
    return {
        "unit_id": content_id(document["doc_id"], "chunk", str(start), str(end)),
        "doc_id": document["doc_id"],
        "view": "chunk",
        "parent_id": "",
        "section": part.section,
        "char_start": start,
        "char_end": end,
        "text": document["text"][start:end],
        "num_tokens": 0,
        "grade": document["grade"],
        "repairs": 0,
        "reject": None,
    }
