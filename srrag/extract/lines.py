"""The lines in which an answer tells what a document says, and what each line means.

    3 Intervention: whole-body vibration | WBV @1,4      an entity: id, type, name, other names
    3.frequency: twice a week @4                         an attribute of it; 0 is the document
    6 has_condition 7 @2                                 a relation between entities
    found 3 > 4 : 5 at 8 in 6 = less; effect: -2.1; p: 0.01 @9       a finding

`@` and numbers name the sentences that state it. `5,6` is each by itself, `5+6` both together.
One bad line costs itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal, cast

from srrag.core.ontology import Ontology
from srrag.core.schema import TENDS

Direction = Literal[
    "better", "worse", "more", "less", "no difference", "not inferior", "differs", ""
]
Kind = Literal["found", "concluded", "planned", "background"]
DIRECTIONS: tuple[Direction, ...] = (
    "better", "worse", "more", "less", "no difference", "not inferior", "differs",
)  # fmt: skip
Ids = tuple[int, ...]
KINDS: tuple[Kind, ...] = ("found", "concluded", "planned", "background")
INFERRED = 0.5
"""Confidence of a tendency, and of a line whose sentence numbers end in "?"; "?70" says 0.7."""

_MAX_NAME_CHARS = 300
_AT = re.compile(r"[\s;]*@\s*\[?(\d[\d\s,;–-]*)\]?\s*(\?(\d{1,2})?)?[\s.;]*$")
_RANGE = re.compile(r"(\d{1,4})(?:\s*[–-]\s*(\d{1,4}))?")
_MAX_RANGE = 12
_IDS = r"\d{1,4}(?:\s*,\s*\d{1,4})*"
_GROUPS = r"\d{1,4}(?:\s*[,+]\s*\d{1,4})*"
_ENTITY = re.compile(r"(\d{1,4})[.:]?\s+([^\d\s:.][^:]{0,60}):\s*(.+)", re.DOTALL)
_ATTRIBUTE = re.compile(r"(\d{1,4})\.([A-Za-z_][^:]{0,60}):\s*(.+)", re.DOTALL)
_RELATION = re.compile(rf"({_IDS})\s+([A-Za-z_]\w{{0,60}})\s+({_IDS})")
_FINDING = re.compile(
    rf"(?:({'|'.join(KINDS)}):?\s+)?({_GROUPS}|[-–—])(?:\s*>\s*({_GROUPS}))?\s*:\s*({_IDS})"
    rf"(?:\s+at\s+({_IDS}))?(?:\s+in\s+({_IDS})(?:\s*>\s*({_IDS}))?)?\s*(?:=\s*(.*))?",
    re.DOTALL,
)
_SIZE = re.compile(r"(effect|ci|p)\s*[:=]\s*", re.IGNORECASE)


@dataclass(frozen=True)
class CitedLine:
    """Numbers of the sentences that state a line, and how sure it is."""

    at: tuple[int, ...]
    confidence: float = 1.0


@dataclass(frozen=True)
class EntityLine(CitedLine):
    """Something that a document is about; `names` are other names of it."""

    id: int = 0
    type: str = ""
    name: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttributeLine(CitedLine):
    """A value of an entity, or of the document (id 0)."""

    owner: int = 0
    attribute: str = ""
    value: str = ""


@dataclass(frozen=True)
class RelationLine(CitedLine):
    """A relation between entities by id; each head has it to each tail."""

    heads: tuple[int, ...] = ()
    relation: str = ""
    tails: tuple[int, ...] = ()


@dataclass(frozen=True)
class FindingLine(CitedLine):
    """What interventions did to outcomes, against comparators, at times, in people: by id.

    Each group of interventions is compared with each of comparators. `others` are people whose
    effect is compared with that of `people`.
    """

    kind: Kind = "found"
    interventions: tuple[Ids, ...] = ()
    comparators: tuple[Ids, ...] = ()
    outcomes: Ids = ()
    times: Ids = ()
    people: Ids = ()
    others: Ids = ()
    direction: Direction = ""
    effect: str = ""
    interval: str = ""
    p: str = ""
    tends: bool = False
    """Whether the direction is a trend, or a difference that no test confirms."""

    @property
    def comparisons(self) -> list[tuple[Ids, Ids]]:
        """Each group of interventions with each of comparators; an empty one where none is told."""
        return [*product(self.interventions or ((),), self.comparators or ((),))]


Line = EntityLine | AttributeLine | RelationLine | FindingLine


@dataclass(frozen=True)
class Bad:
    """A line that cannot be read."""

    line: str
    reason: str


@dataclass
class Told:
    """The lines of an answer, by what they say."""

    entities: dict[int, EntityLine] = field(default_factory=dict)
    attributes: list[AttributeLine] = field(default_factory=list)
    relations: list[RelationLine] = field(default_factory=list)
    findings: list[FindingLine] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)


def read_lines(lines: Iterable[str], known: Mapping[int, EntityLine] | None = None) -> Told:
    """Read lines, whatever list they stood in; a line that cannot be read is `malformed`.

    A line without a sentence number is `ungrounded`. An id that names two things is the first's;
    `known` are the things that have one already.
    """
    told, known = Told(), known or {}
    for text in lines:
        line = read_line(text)
        if isinstance(line, Bad):
            told.bad.append(line)
        elif isinstance(line, EntityLine):
            named = known.get(line.id)
            other = named and not _called(line) & _called(named)
            if line.id == 0 or other or told.entities.setdefault(line.id, line).name != line.name:
                told.bad.append(Bad(text, "repeated_id"))
        elif isinstance(line, AttributeLine):
            told.attributes.append(line)
        elif isinstance(line, RelationLine):
            told.relations.append(line)
        else:
            told.findings.append(line)
    return told


def read_line(text: str) -> Line | Bad:
    """Read one line."""
    text = " ".join(text.split())
    at = _AT.search(text)
    if at is None:
        return Bad(text, "ungrounded")
    sure = 1.0 if not at[2] else int(at[3]) / 100 if at[3] else INFERRED
    body, cited = text[: at.start()].strip(), (_numbers(at[1]), sure)
    if found := _FINDING.fullmatch(body):
        return _finding(found, *cited)
    if found := _RELATION.fullmatch(body):
        return RelationLine(*cited, _ids(found[1]), found[2], _ids(found[3]))
    if found := _ATTRIBUTE.fullmatch(body):
        value = found[3].partition("|")[0]  # a value has no other names
        return AttributeLine(
            *cited, int(found[1]), "_".join(found[2].split()), value[:_MAX_NAME_CHARS].strip()
        )
    if found := _ENTITY.fullmatch(body):
        names = [name for part in found[3].split("|") if (name := part.strip()[:_MAX_NAME_CHARS])]
        if names:
            kind = found[2].strip()
            return EntityLine(
                *cited, int(found[1]), kind, names[0], tuple(dict.fromkeys(names[1:]))
            )
    return Bad(text, "malformed")


def _finding(found: re.Match[str], at: tuple[int, ...], sure: float) -> FindingLine:
    kind, heads, against, outcomes, times, people, others, rest = found.groups()
    direction = ""
    sizes: dict[str, str] = {}
    last, tends = "effect", False
    for piece in (part.strip() for part in (rest or "").split(";")):
        sign = piece.lower().rstrip(" ?.")
        if sign.removeprefix(TENDS) in DIRECTIONS and not direction:
            direction = sign.removeprefix(TENDS)
            tends = direction != sign or "?" in piece  # `better?` says the same as `tends better`
            if tends:
                sure = min(sure, INFERRED)
        elif named := _SIZE.match(piece):
            last = named[1].lower()
            sizes[last] = piece[named.end() :]
        elif piece:
            sizes[last] = f"{sizes[last]}; {piece}" if last in sizes else piece
    return FindingLine(
        at,
        sure,
        cast(Kind, kind or "found"),
        _groups(heads),
        _groups(against),
        _ids(outcomes),
        _ids(times),
        _ids(people),
        _ids(others),
        cast(Direction, direction),
        sizes.get("effect", ""),
        sizes.get("ci", ""),
        sizes.get("p", ""),
        tends,
    )


def _called(entity: EntityLine) -> set[str]:
    return {name.casefold() for name in (entity.name, *entity.names)}


def _ids(text: str | None) -> Ids:
    return tuple(dict.fromkeys(map(int, re.findall(r"\d+", text or ""))))


def _groups(text: str | None) -> tuple[Ids, ...]:
    return tuple(dict.fromkeys(ids for part in (text or "").split(",") if (ids := _ids(part))))


def _numbers(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for low, high in _RANGE.findall(text):
        last = int(high or low)
        found += range(int(low), last + 1) if last - int(low) <= _MAX_RANGE else [int(low), last]
    return tuple(dict.fromkeys(found))


def entity_line(entity: EntityLine) -> str:
    """Write an entity without its sentences, for the table that stands before the next block."""
    return f"{entity.id} {entity.type}: {' | '.join((entity.name, *entity.names))}"


def read_entity(line: str) -> EntityLine | None:
    """Read what `entity_line` wrote."""
    found = read_line(f"{line} @0")
    return replace(found, at=()) if isinstance(found, EntityLine) else None


def patterns(ontology: Ontology, without: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return regular expressions of the lines of each list, for guided decoding.

    They hold the types, relations and attributes of the ontology as alternatives, and only syntax
    that grammars of engines share: no look-around, no word borders. `without` names attributes that
    are not to be written.
    """
    ids = r"[0-9]{1,3}(,[0-9]{1,3})*"
    groups = r"[0-9]{1,3}([,+][0-9]{1,3})*"
    at = r" @[0-9]{1,4}(,[0-9]{1,4})*\??"
    text = r'[^"\\\n\r\t]+'
    size = r'[^"\\\n\r\t;]+'
    types, relations = "|".join(ontology.entities), "|".join(ontology.told)
    entities = [rf"[0-9]{{1,3}} ({types}): {text}{at}"]
    if attributes := "|".join(sorted({*ontology.attributes} - {*without})):
        entities.append(rf"[0-9]{{1,3}}\.({attributes}): {text}{at}")
    made = {"entities": tuple(entities)}
    if relations:
        made["relations"] = (rf"{ids} ({relations}) {ids}{at}",)
    if ontology.findings:
        signs = "|".join(DIRECTIONS[:4])
        made["findings"] = (
            rf"({'|'.join(KINDS)}) ({groups}|-)( > {groups})? : {ids}( at {ids})?"
            rf"( in {ids}( > {ids})?)?( = ({TENDS}({signs})|{'|'.join(DIRECTIONS)}|effect: {size})"
            rf"(; effect: {size})?(; ci: {size})?(; p: {size})?)?{at}",
        )
    return made
