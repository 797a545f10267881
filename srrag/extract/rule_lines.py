"""The lines that the rules write about a block of a document, from the mentions that they find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from srrag.core.ontology import DOCUMENT, Ontology
from srrag.extract.document_claims import DERIVED
from srrag.extract.lines import EntityLine, entity_line
from srrag.extract.numbered import NumberedBlock
from srrag.extract.rule_facts import Find, Row, extract_facts

PIECE_CHARS = 1_440
"""Characters that the rules read together, some 320 tokens: what a mention is depends on its place
among the first sentences."""
_HEADING = "#"


def rule_lines(blocks: Sequence[NumberedBlock], ontology: Ontology, find: Find) -> list[list[str]]:
    """The lines of entities, attributes and relations of each block."""
    pieces = [(number, *piece) for number, block in enumerate(blocks) for piece in _pieces(block)]
    found = extract_facts(
        [text for *_, text in pieces],
        [section for _, _, section, _ in pieces],
        [start <= blocks[number].spans.get(1, (-1, -1))[0] for number, start, *_ in pieces],
        [DOCUMENT] * len(pieces),
        ontology,
        find,
    )
    writers = [_Writer(block, ontology) for block in blocks]
    for (number, start, *_), (facts, attributes) in zip(pieces, found, strict=True):
        for fact in facts:
            writers[number].fact(fact, start)
        for attribute in attributes:
            writers[number].attribute(attribute, start)
    return [writer.lines() for writer in writers]


def _pieces(block: NumberedBlock) -> Iterator[tuple[int, str, str]]:
    """Start, section and text of each run of paragraphs of a section, its heading included."""
    text, spans = block.text, list(block.spans.values())
    before = text.rfind(f"\n{_HEADING}", 0, spans[0][0]) + 1
    opened = text.startswith(_HEADING, before)
    section = text[before : spans[0][0]].split("\n")[0].strip("# ") if opened else ""
    start = before if opened and not text[before : spans[0][0]].count(".") else spans[0][0]
    for (_, end), (low, _) in pairwise([*spans, (len(text), len(text))]):
        between = text[end:low]
        heading = between.rfind(f"\n{_HEADING}")
        fits = low - start <= PIECE_CHARS or "\n\n" not in between
        if low < len(text) and heading < 0 and fits:
            continue
        yield start, section, text[start:end]
        start = low if heading < 0 else end + heading + 1
        if heading >= 0:
            section = between[heading + 1 :].split("\n")[0].strip("# ")


class _Writer:
    """Numbers the entities of a block and writes what is told of them."""

    def __init__(self, block: NumberedBlock, ontology: Ontology) -> None:
        self._block = block
        self._ontology = ontology
        self._starts = [(low, number) for number, (low, _) in block.spans.items()]
        self._ids: dict[tuple[str, str], int] = {}
        self._entities: list[EntityLine] = []
        self._at: list[dict[int, float]] = []
        self._rest: dict[str, None] = {}

    def fact(self, fact: Row, start: int) -> None:
        """Take a fact whose text begins at `start`; the document's is implied by the type."""
        at = self._sentence(str(fact["quote"]), start)
        head, tail = (
            self._id(str(fact[f"{side}_type"]), str(fact[side])) for side in ("head", "tail")
        )
        sure = float(fact["confidence"])
        if head == 0 and self._ontology.implied(str(fact["tail_type"])) == fact["relation"]:
            self._at[tail - 1].setdefault(at, sure)
            return
        for number in (head, tail):
            if number:
                self._at[number - 1].setdefault(at, sure)
        if head != tail:
            self._rest[f"{head} {fact['relation']} {tail} {_cited(at, sure)}"] = None

    def attribute(self, item: Row, start: int) -> None:
        """Take an attribute."""
        if item["attribute"] in DERIVED:
            return
        at, sure = self._sentence(str(item["quote"]), start), float(item["confidence"])
        owner = self._id(str(item["entity_type"]), str(item["entity"]))
        if owner:
            self._at[owner - 1].setdefault(at, sure)
        line = f"{owner}.{item['attribute']}: {_said(str(item['value']))} {_cited(at, sure)}"
        self._rest[line] = None

    def lines(self) -> list[str]:
        """The entities, a line for each sentence that names one, then the rest."""
        named = [
            f"{entity_line(entity)} @{','.join(map(str, sorted(at)))}{_sure(min(at.values()))}"
            for entity, at in zip(self._entities, self._at, strict=True)
        ]
        return [*named, *self._rest]

    def _id(self, kind: str, name: str) -> int:
        if kind == DOCUMENT:
            return 0
        name = _said(name)
        number = self._ids.setdefault((kind, name.casefold()), len(self._ids) + 1)
        if number > len(self._entities):
            self._entities.append(EntityLine((), 1.0, number, kind, name))
            self._at.append({})
        return number

    def _sentence(self, quote: str, start: int) -> int:
        """The number of the sentence in which a quote begins."""
        place = self._block.text.find(quote, start)
        return max((n for low, n in self._starts if low <= place), default=self._starts[0][1])


def _said(name: str) -> str:
    """A name or value without the separators of a line."""
    return " ".join(name.replace("|", "/").replace("@", " at ").split())


def _cited(at: int, sure: float) -> str:
    return f"@{at}{_sure(sure)}"


def _sure(sure: float) -> str:
    return "" if sure >= 1 else f"?{min(99, max(1, round(100 * sure)))}"
