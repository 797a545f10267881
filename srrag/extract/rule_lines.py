"""The lines that the rules write about a block of a document, from the mentions that they find.

Mentions and values become the facts that an ontology admits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from srrag.core.ontology import DOCUMENT, Ontology
from srrag.extract.document_claims import DERIVED
from srrag.extract.lines import EntityLine, entity_line
from srrag.extract.numbered import NumberedBlock
from srrag.reading.concepts import concept_name, concept_spans
from srrag.reading.lexicon import bounded
from srrag.reading.mentions import MAX_CHARS, PATTERN_CONFIDENCE, Mention, lower_same_length
from srrag.reading.values import Value, find_values, timepoint

PIECE_CHARS = 1_440
"""Characters that the rules read together, some 320 tokens: what a mention is depends on its place
among the first sentences."""
_HEADING = "#"

Find = Callable[[Sequence[str], Sequence[str], Sequence[bool]], list[list[Mention]]]
"""Maps texts, section names and document-start flags to the typed mentions of each text."""

_RELATION = {
    "Population": "has_population",
    "Condition": "has_condition",
    "Intervention": "uses_intervention",
    "Comparator": "compares_to",
    "Outcome": "reports_outcome",
    "Timepoint": "has_timepoint",
    "Arm": "targets_arm",
    "Device": "uses_device",
    "AdverseEvent": "has_adverse_event",
}
_HEADS = {
    "Comparator": ("Intervention",),
    "AdverseEvent": ("Intervention", "Comparator", "Device"),
    "Timepoint": ("Outcome",),
    "Contraindication": ("Intervention", "Device"),
}
"""Types that can be the head of a relation to a later mention in the same sentence."""
_CLAUSE_CHARS = 160
_CLAUSE_START = bounded(r"[.;:!?](?=\s)|\n\n|,?\sbut\b|,\s(?:and|so|thus|hence|therefore|we)\b")
_NOT = r"\bnot(?!\s(?:only|just|merely)\b)|\b(?:no|never|nor|neither|none|cannot)\b|n[’']t\b"
_NEGATED = bounded(
    rf"(?:{_NOT}|\b(?:without|absence of|unless|whether)\b)"
    r"(?:(?!\sand\s(?:\w+ly\s)?(?:caus|increas|led\b|result|induc|had\b|produc)"
    r"|,\s\w+\s(?:was|were)\b)[^.;]|\.(?=\d)){0,40}$"
)
"""Words in front of a harm that deny it or leave it open."""
_VERB = bounded(r"(?<![\w-])(?:recommend(?:s|ed)?|advised|indicated|should)\b")
_OPEN = bounded(
    r"\b(?:insufficient|inadequate|unclear|uncertain|whether|premature|too early|"
    r"(?:little|limited|lack of)\s(?:\w+\s){0,2}(?:evidence|data))\b"
)
_DENIED = bounded(
    r"(?:\b(?:not|never|no longer|cannot)|\b[a-z]{2,9}n[’']t)"
    r"(?:,?\s(?:be|been|being|to|yet|still|currently|routinely|generally|usually|normally)){0,3}"
    r",?\s$"
)
"""The refusal in front of the verb: "is not currently recommended"."""
_REFUSED = bounded(
    r"\s(?:\w+ly\s)?(?:against|avoiding|(?:not|never)(?!\s(?:only|just|merely)\b)|"
    r"neither(?!\sfor\b)|be\s(?:\w+ly\s)?avoided)\b"
    r"|\sthat\b(?:(?!\s(?:be|should|must)\s)[^.;,]){0,60}?"
    r"\s(?:not be|be (?:\w+ly )?avoided|(?:should|must) (?:not|never))\b"
)
"""The refusal behind the verb: "recommend against", "should not", "recommends that … not be"."""
_TWICE = bounded(
    r"(?:\s(?:to|be|that|the|\w+ly)){0,3}\s"
    r"(?:avoid|delay|withh[eo]ld|stop|discontinu|withdr|omit|discourag|restrict|limit)\w*"
)
"""What is refused where a refusal speaks for a treatment: "should not be delayed"."""
_ASIDE = bounded(
    r"\b(?:who|which|that)\s(?:is|are|was|were|has|have|had|do|does|did|can|could)"
    r"(?:\snot|n[’']t)\b|\bwho\scannot\b"
    r"|\b(?:with|who\s(?:has|have|had))\sno\b(?!\s(?:\w+\s)?(?:evidence|data|reason)\b)"
    r"|\bno\s(?:more|less|fewer|later|earlier|greater)\sthan\b"
    r"|\b(?:if|when|where|unless)\snot\s\w+"
    r"|\b(?:vaccin|immuni[sz]|protect|prophyla)\w*(?:\s\w+){0,3}\sagainst\b"
)
"""Negations of people or aims, which say nothing of the advice itself."""
_UNCLEAR = bounded(rf"{_NOT}|\b(?:against|avoid\w*)\b")
_CONTRAST = bounded(r"\b(?:but|instead|unless|whereas|while)\b")

NEUTRAL_TYPE = {
    "Population": "ClinicalConcept",
    "Condition": "ClinicalConcept",
    "Intervention": "ClinicalConcept",
    "Comparator": "ClinicalConcept",
    "Arm": "ClinicalConcept",
    "Outcome": "OutcomeMeasure",
}
NEUTRAL_RELATION = {
    "has_population": "mentions",
    "has_condition": "mentions",
    "uses_intervention": "mentions",
    "compares_to": "associated_with",
    "targets_arm": "mentions",
    "reports_outcome": "reports_measure",
}
"""Relations of the neutral schema, which has no PICO types, for the PICO relations of the rules."""


class Kinds(NamedTuple):
    """Types and relation of a fact as an ontology names them."""

    head_type: str
    relation: str
    tail_type: str


def spoken(ontology: Ontology, head_type: str, relation: str, tail_type: str) -> Kinds | None:
    """Translate a fact's types into the ontology; None if the ontology lacks them.

    PICO types stay if the ontology has them, else NEUTRAL_TYPE and NEUTRAL_RELATION translate them.
    A document "mentions" a concept; it is never "associated with" it.
    """
    kinds = Kinds(head_type, relation, tail_type)
    if ontology.admits(*kinds):
        return kinds
    head, tail = NEUTRAL_TYPE.get(head_type, head_type), NEUTRAL_TYPE.get(tail_type, tail_type)
    for name in (relation, NEUTRAL_RELATION.get(relation, relation), "mentions"):
        if ontology.admits(head, name, tail):
            return Kinds(head, name, tail)
    return None


def spoken_attribute(ontology: Ontology, entity_type: str, attribute: str) -> str | None:
    """Return the entity's type in the ontology if it may have the attribute, else None."""
    for kind in (entity_type, NEUTRAL_TYPE.get(entity_type, entity_type)):
        if ontology.admits_attribute(kind, attribute):
            return kind
    return None


def rule_lines(blocks: Sequence[NumberedBlock], ontology: Ontology, find: Find) -> list[list[str]]:
    """The lines of entities, attributes and relations of each block."""
    pieces = [(number, *piece) for number, block in enumerate(blocks) for piece in _pieces(block)]
    found = find(
        [text for *_, text in pieces],
        [section for _, _, section, _ in pieces],
        [start <= blocks[number].spans.get(1, (-1, -1))[0] for number, start, *_ in pieces],
    )
    writers = [_Writer(block, ontology) for block in blocks]
    for (number, start, _, text), mentions in zip(pieces, found, strict=True):
        _Reader(writers[number], start, text).read(mentions)
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


def _clause(lower: str, place: int) -> int:
    """The start of the clause that a place stands in, as far back as it matters."""
    low = max(0, place - _CLAUSE_CHARS)
    return max((each.end() for each in _CLAUSE_START.finditer(lower, low, place)), default=low)


def _is_negated(lower: str, mention: Mention) -> bool:
    """Whether the words in front of a mention deny it or leave it open."""
    return _NEGATED.search(lower[_clause(lower, mention.start) : mention.start]) is not None


def _advice(lower: str, mention: Mention) -> tuple[int, str] | None:
    """The start of a recommendation, with the word that refuses it, and its relation.

    The words beside its verb decide. None where they leave it open, or where others may turn it
    round: a direction is not guessed.
    """
    verb = _VERB.search(lower, mention.start, mention.end)
    if verb is None:
        return None
    clause = _clause(lower, verb.start())
    before, after = lower[clause : verb.start()], lower[verb.end() : mention.end]
    denied, refused = _DENIED.search(before), _REFUSED.match(after)
    if _OPEN.search(before) or (denied and refused):
        return None
    if denied or refused:
        if _TWICE.match(after, refused.end() if refused else 0):
            return None
        start = clause + denied.start() if denied else mention.start
        return min(start, mention.start), "recommends_against"
    if _UNCLEAR.search(_ASIDE.sub(" ", f"{before} {after}")):
        return None
    return mention.start, "recommends_for"


def _distance(value: Value, mention: Mention) -> int:
    """Return the number of characters between a value and a mention; 0 if they touch or overlap."""
    return max(mention.start - value.end, value.start - mention.end, 0)


class _Reader:
    """Reads a piece of a block, which begins at `start`, and has each of its facts written once."""

    def __init__(self, writer: _Writer, start: int, text: str) -> None:
        self.writer, self.start, self.text = writer, start, text
        self.lower = lower_same_length(text)
        self._seen: set[tuple[str, ...]] = set()

    def read(self, found: Sequence[Mention]) -> None:
        """Take the mentions of the piece."""
        mentions = [
            m._replace(start=start, end=end)
            for m in map(self._meant, found)
            if m and m.end - m.start <= MAX_CHARS
            for start, end in concept_spans(self.lower, m.type, m.start, m.end)
        ]
        self._relate(mentions)
        self._describe(mentions, find_values(self.lower))

    def _meant(self, mention: Mention) -> Mention | None:
        """The mention with the word that refuses it; None where it is denied or says nothing."""
        if mention.type == "Contraindication":
            return None if _is_negated(self.lower, mention) else mention
        if mention.type == "Recommendation":
            advice = _advice(self.lower, mention)
            return mention._replace(start=advice[0]) if advice else None
        return mention

    def _relate(self, mentions: Sequence[Mention]) -> None:
        """Add a fact for each mention: its head is an earlier entity, else the document."""
        for place, mention in enumerate(mentions):
            if mention.type == "Recommendation":
                self._recommendation(mention, mentions[place + 1 :])
            elif mention.type == "Contraindication":
                self._contraindication(place, mentions)
            else:
                head = self._head(place, mentions)
                denied = head and mention.type == "AdverseEvent"
                if not (denied and _is_negated(self.lower, mention)):
                    self._fact(head, _RELATION[mention.type], mention)

    def _describe(self, mentions: Sequence[Mention], values: Sequence[Value]) -> None:
        """Attach each value to the nearest entity in its sentence, else to the document."""
        for mention in mentions:
            point = timepoint(self.lower[mention.start : mention.end])
            if mention.type == "Timepoint" and point:
                span = (mention.start, mention.end)
                self._attribute(mention, Value("timepoint_value", point[0], *span))
                self._attribute(mention, Value("timepoint_unit", point[1], *span))
        for value in values:
            near = sorted(mentions, key=functools.partial(_distance, value))
            if not any(self._same_sentence(m, value) and self._attribute(m, value) for m in near):
                self._attribute(None, value)

    def _same_sentence(self, one: Mention, other: Value | Mention) -> bool:
        start, end = min(one.end, other.end), max(one.start, other.start)
        return self.lower.find(". ", start - 1, end) < 0 and self.lower.find("\n", start, end) < 0

    def _head(self, place: int, mentions: Sequence[Mention]) -> Mention | None:
        tail = mentions[place]
        for mention in reversed(mentions[:place]):
            if not self._same_sentence(mention, tail):
                return None
            if mention.type in _HEADS.get(tail.type, ()):
                return mention
        return None

    def _recommendation(self, mention: Mention, later: Sequence[Mention]) -> None:
        advice = _advice(self.lower, mention)
        relation = advice[1] if advice else ""
        self._fact(None, relation, mention)
        end = mention.end
        if relation == "recommends_against":
            contrast = _CONTRAST.search(self.lower, mention.start, end)
            end = contrast.start() if contrast else end
        for other in later:
            if other.start >= end:
                break
            if other.type in ("Intervention", "Device"):
                self._fact(mention, relation, other)

    def _contraindication(self, place: int, mentions: Sequence[Mention]) -> None:
        mention = mentions[place]
        head = self._head(place, mentions)
        for other in mentions[place + 1 :]:
            if other.start < mention.end and other.type in ("Population", "Condition"):
                self._fact(head, "contraindicated_for", other)
                return
        self._fact(head, "contraindicated_for", mention)

    def _name(self, mention: Mention | None) -> str:
        return concept_name(self.text[mention.start : mention.end]) if mention else ""

    def _fact(self, head: Mention | None, relation: str, tail: Mention) -> None:
        kinds = spoken(self.writer.ontology, head.type if head else DOCUMENT, relation, tail.type)
        names = self._name(head), self._name(tail)
        key = (names[0], relation, names[1].lower(), tail.type)
        if kinds is None or key in self._seen:
            return
        self._seen.add(key)
        ends = [head, tail] if head else [tail]
        at = self.writer.sentence(self.start + min(m.start for m in ends))
        self.writer.fact(kinds, names, at, min(m.confidence for m in ends))

    def _attribute(self, owner: Mention | None, value: Value) -> bool:
        """Add the attribute if the ontology allows it there; returns whether it does."""
        kind = spoken_attribute(
            self.writer.ontology, owner.type if owner else DOCUMENT, value.attribute
        )
        if kind is None:
            return False
        key = (self._name(owner), value.attribute, value.value)
        if key not in self._seen and value.attribute not in DERIVED:
            at = self.writer.sentence(self.start + value.start)
            self.writer.attribute(kind, self._name(owner), value, at)
        self._seen.add(key)
        return True


class _Writer:
    """Numbers the entities of a block and writes what is told of them."""

    def __init__(self, block: NumberedBlock, ontology: Ontology) -> None:
        self._block = block
        self.ontology = ontology
        self._ids: dict[tuple[str, str], int] = {}
        self._entities: list[EntityLine] = []
        self._at: list[dict[int, float]] = []
        self._rest: dict[str, None] = {}

    def sentence(self, place: int) -> int:
        """The number of the sentence that has a place of the text; of a heading, the next one."""
        ends = ((number, end) for number, (_, end) in self._block.spans.items())
        return next((number for number, end in ends if place < end), max(self._block.spans))

    def fact(self, kinds: Kinds, names: tuple[str, str], at: int, sure: float) -> None:
        """Write a fact of a sentence; the document's is implied by the type."""
        head = self._id(kinds.head_type, names[0])
        tail = self._id(kinds.tail_type, names[1])
        if head == 0 and self.ontology.implied(kinds.tail_type) == kinds.relation:
            self._at[tail - 1].setdefault(at, sure)
            return
        for number in (head, tail):
            if number:
                self._at[number - 1].setdefault(at, sure)
        if head != tail:
            self._rest[f"{head} {kinds.relation} {tail} {_cited(at, sure)}"] = None

    def attribute(self, kind: str, name: str, value: Value, at: int) -> None:
        """Write an attribute."""
        owner = self._id(kind, name)
        if owner:
            self._at[owner - 1].setdefault(at, PATTERN_CONFIDENCE)
        cited = _cited(at, PATTERN_CONFIDENCE)
        self._rest[f"{owner}.{value.attribute}: {_said(value.value)} {cited}"] = None

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


def _said(name: str) -> str:
    """A name or value without the separators of a line."""
    return " ".join(name.replace("|", "/").replace("@", " at ").split())


def _cited(at: int, sure: float) -> str:
    return f"@{at}{_sure(sure)}"


def _sure(sure: float) -> str:
    return "" if sure >= 1 else f"?{min(99, max(1, round(100 * sure)))}"
