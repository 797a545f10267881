"""Turn the lines of an answer into facts and findings with their places in the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from srrag.core.ontology import DOCUMENT, HAS_ATTRIBUTE, Ontology
from srrag.core.schema import EFFECT_OF, TENDS
from srrag.extract.lines import AttributeLine, Bad, EntityLine, FindingLine, RelationLine, Told
from srrag.extract.numbered import NumberedBlock, Stretch
from srrag.reading.values import timepoint

Row = dict[str, Any]
DERIVED = ("timepoint_value", "timepoint_unit")
"""Attributes that follow from the name of a Timepoint."""
OTHER_NAME = "other_name"
CONCLUDED = 0.5
"""Confidence of the edge of what is only concluded."""
_BEYOND = ("unknown_type", "unknown_relation", "unknown_attribute")


@dataclass(frozen=True)
class DocumentClaims:
    """Reads the lines of one block of a document.

    `known` are the entities of earlier blocks by id, `long` the long forms of abbreviations.
    """

    ontology: Ontology
    block: NumberedBlock
    doc_id: str
    known: Mapping[int, EntityLine]
    long: Mapping[str, str]

    def entities(self, told: Told) -> dict[int, EntityLine]:
        """All entities that a line may name by id, with the long form of a short name as name."""
        return {
            **self.known,
            **{number: self._full(each) for number, each in told.entities.items()},
        }

    def facts(self, told: Told) -> list[Row]:
        """Columns of TRIPLES for each claim, each once; `reason` is "" for what stands."""
        here = self.entities(told)
        compared = {
            number for each in told.findings if each.comparators for number in each.outcomes
        }
        rows = [
            *self._entities(told, here),
            *(row for each in told.attributes for row in self._attribute(each, here)),
            *(row for each in told.relations for row in self._relation(each, here)),
            *(row for each in told.findings for row in self._edges(each, here, compared)),
            *(_unread(each) for each in told.bad),
        ]
        return list({tuple(row.values()): row for row in rows}.values())

    def findings(self, told: Told) -> list[Row]:
        """Columns of FINDINGS, one row a comparison and outcome of a finding."""
        here = self.entities(told)
        return [row for each in told.findings for row in self._finding(each, here)]

    def proposals(self, told: Told, answer: Told) -> list[Row]:
        """Columns of TRIPLES of what a model proposes for the schema, with the reason `proposed`.

        Proposed lines refer to entities of the `answer`.
        """
        here = {**self.entities(answer), **told.entities}
        rows = [row for each in told.relations for row in self._relation(each, here)]
        rows += [row for each in told.attributes for row in self._attribute(each, here)]
        rows += [
            self._unknown(each)
            for each in told.entities.values()
            if not self.ontology.knows_type(each.type)
        ]
        return [
            row | {"reason": "proposed"}
            for row in rows
            if row["reason"] in _BEYOND and row["quote"]
        ]

    def _full(self, entity: EntityLine) -> EntityLine:
        long = self.long.get(entity.name)
        if long is None:
            return entity
        names = dict.fromkeys([entity.name, *entity.names])
        return replace(entity, name=long, names=tuple(name for name in names if name != long))

    def _entities(self, told: Told, here: Mapping[int, EntityLine]) -> Iterator[Row]:
        """What a document has by telling of it, unless a relation to the document is stated."""
        stated = {tail for each in told.relations if 0 in each.heads for tail in each.tails}
        for number in told.entities:
            entity = here[number]
            names = [_called(entity)]
            if not self.ontology.knows_type(entity.type) or entity.type == DOCUMENT:
                yield self._unknown(entity)
                continue
            relation = self.ontology.implied(entity.type)
            places = self.block.places(entity.at, names)
            if not places:
                yield self._row("entity", entity, entity, "", entity, None, "ungrounded")
            if places and (number in stated or relation is None):
                yield self._row("entity", entity, entity, "", entity, places[0])
            elif relation is not None:
                for each in places:
                    yield self._row("relation", entity, None, relation, entity, each)
            for name in entity.names:
                if place := self.block.place(entity.at, [[name, entity.name]]):
                    yield self._value(entity, OTHER_NAME, name, entity.confidence, place)
            yield from self._timepoint(entity)

    def _unknown(self, entity: EntityLine) -> Row:
        """The refused row of an entity whose type the schema lacks, with its place in the text."""
        place = self.block.place(entity.at, [_called(entity)])
        return self._row("entity", entity, entity, "", entity, place, "unknown_type")

    def _timepoint(self, entity: EntityLine) -> Iterator[Row]:
        point = timepoint(entity.name.lower()) if entity.type == "Timepoint" else None
        place = self.block.place(entity.at, [_called(entity)])
        for attribute, value in zip(DERIVED, point or (), strict=False):
            if place and self.ontology.admits_attribute(entity.type, attribute):
                yield self._value(entity, attribute, value, entity.confidence, place)

    def _attribute(self, line: AttributeLine, here: Mapping[int, EntityLine]) -> Iterator[Row]:
        owner = here.get(line.owner)
        if owner is None and line.owner != 0:
            yield _unread(Bad(f"{line.owner}.{line.attribute}", "unknown_id"))
            return
        called = [line.value, *(_called(owner) if owner else [])]
        place = self.block.place(line.at, [called])
        reason = "" if place else "ungrounded"
        known = line.attribute in self.ontology.attributes
        if not self.ontology.admits_attribute(owner.type if owner else DOCUMENT, line.attribute):
            # What a type cannot have is still true of the document.
            owner = None
            fits = self.ontology.admits_attribute(DOCUMENT, line.attribute)
            reason = reason or ("" if fits else "type_mismatch" if known else "unknown_attribute")
        if reason == "unknown_attribute":
            owner = here.get(line.owner)
        yield self._value(owner, line.attribute, line.value, line.confidence, place, reason)

    def _relation(self, line: RelationLine, here: Mapping[int, EntityLine]) -> Iterator[Row]:
        for one in line.heads:
            for other in line.tails:
                if not {one, other} <= {0, *here} or one == other:
                    yield _unread(Bad(f"{one} {line.relation} {other}", "unknown_id"))
                    continue
                head, tail = here.get(one), here.get(other)
                types = _type(head), _type(tail)
                reason = ""
                if line.relation not in self.ontology.relations:
                    reason = "unknown_relation"
                elif not self.ontology.admits(types[0], line.relation, types[1]):
                    reason = "type_mismatch"
                    if self.ontology.admits(types[1], line.relation, types[0]):
                        head, tail, reason = tail, head, ""
                names = [_called(each) for each in (head, tail) if each]
                place = self.block.place(line.at, names)
                yield self._row(
                    "relation", line, head, line.relation, tail, place,
                    reason or ("" if place else "ungrounded"),
                )  # fmt: skip

    def _edges(
        self, line: FindingLine, here: Mapping[int, EntityLine], compared: set[int]
    ) -> Iterator[Row]:
        """The edges of the graph that follow from a finding.

        What both sides have got is on no edge, and what several interventions did together is no
        effect of one of them. A plan and the work of others have none between
        intervention and outcome, nor has a trend, a difference between effects, or a change from
        before of an outcome that is `compared` with something elsewhere. A finding that is refused
        has no edges.
        """
        if self._fault(line, here):
            return
        told = line.kind in ("found", "concluded") and not line.others and not line.tends
        relation = self.ontology.findings.get(line.direction) if told else None
        sure = min(line.confidence, CONCLUDED if line.kind == "concluded" else 1.0)
        outcomes = _those(line.outcomes, here)
        for given, against in line.comparisons:
            heads = _those(tuple(i for i in given if i not in against), here)
            tails = _those(tuple(i for i in against if i not in given), here)
            for one, outcome in product(heads, outcomes):
                fits = against or line.kind == "concluded" or outcome.id not in compared
                if relation and fits and len(heads) == 1 and one.id != outcome.id:
                    yield from self._edge(line, one, relation, outcome, sure)
            if line.kind in ("found", "planned"):
                for one, other in product(heads, tails):
                    yield from self._admitted(line, one, "compares_to", other)
        if line.kind in ("found", "planned"):
            for outcome, time in product(outcomes, _those(line.times, here)):
                yield from self._admitted(line, outcome, "has_timepoint", time)

    def _admitted(
        self, line: FindingLine, head: EntityLine, relation: str, tail: EntityLine
    ) -> Iterator[Row]:
        if head.id != tail.id and self.ontology.admits(head.type, relation, tail.type):
            yield from self._edge(line, head, relation, tail, line.confidence)

    def _edge(
        self, line: FindingLine, head: EntityLine, relation: str, tail: EntityLine, sure: float
    ) -> Iterator[Row]:
        if not (self.ontology.knows_type(head.type) and self.ontology.knows_type(tail.type)):
            return
        if place := self.block.place(line.at, [_called(head), _called(tail)]):
            yield self._row("relation", replace(line, confidence=sure), head, relation, tail, place)

    def _numbers(self, line: FindingLine) -> list[int]:
        """The sentences of the text that a finding names; its title alone states none."""
        return [number for number in self.block.known(line.at) if number]

    def _fault(self, line: FindingLine, here: Mapping[int, EntityLine]) -> str:
        """Why a finding is refused, "" if it stands."""
        ids = {*line.outcomes, *line.times, *line.people, *line.others}
        ids.update(*line.interventions, *line.comparators)
        if not ids <= {0, *here}:
            return "unknown_id"
        return "" if self._numbers(line) else "ungrounded"

    def _finding(self, line: FindingLine, here: Mapping[int, EntityLine]) -> Iterator[Row]:
        spans = [self.block.spans[number] for number in self._numbers(line)]
        told: Row = {
            "kind": line.kind,
            "times": _names(line.times, here),
            "direction": TENDS * line.tends + line.direction,
            "places": [{"start": low, "end": high} for low, high in spans],
            "quote": " ".join(self.block.text[low:high] for low, high in spans),
            "confidence": line.confidence,
            "reason": self._fault(line, here),
        }
        rows = [*self._compared(line, here)]
        size = {"effect": line.effect, "interval": line.interval, "p": line.p}
        # A size of several comparisons is the size of none; "P < 0.001 for both" is that of each.
        if len(rows) > 1 and (line.effect or line.interval):
            size = dict.fromkeys(size, "")
        for given, against, outcome, people in rows:
            yield (
                told
                | size
                | {
                    "interventions": given,
                    "comparators": against,
                    "outcome": outcome,
                    "people": people,
                }
            )

    def _compared(
        self, line: FindingLine, here: Mapping[int, EntityLine]
    ) -> Iterator[tuple[list[str], list[str], str, list[str]]]:
        """Who is compared with whom on what in whom; one effect may be compared with another."""
        for (given, against), number in product(line.comparisons, line.outcomes):
            outcome = here[number].name if number in here else ""
            sides = _names(given, here), _names(against, here)
            if not line.others:
                yield *sides, outcome, _names(line.people, here)
            effect = " vs. ".join(" and ".join(side) for side in sides if side)
            for one, other in product(_names(line.people, here), _names(line.others, here)):
                yield [one], [other], f"{EFFECT_OF}{effect} on {outcome}", []

    def _row(
        self,
        kind: str,
        line: Any,
        head: EntityLine | None,
        relation: str,
        tail: EntityLine | None,
        place: Stretch | None,
        reason: str = "",
    ) -> Row:
        """A fact; None is the document. A fact of kind `entity` has a head alone."""
        alone = kind == "entity"
        return {
            "kind": kind,
            "head": head.name if head else self.doc_id,
            "head_type": _type(head),
            "relation": relation,
            "tail": "" if alone else tail.name if tail else self.doc_id,
            "tail_type": "" if alone else _type(tail),
            **_placed(place, self.block.start),
            "confidence": line.confidence,
            "reason": reason,
        }

    def _value(
        self,
        owner: EntityLine | None,
        attribute: str,
        value: str,
        sure: float,
        place: Stretch | None,
        reason: str = "",
    ) -> Row:
        return {
            "kind": "attribute",
            "head": owner.name if owner else self.doc_id,
            "head_type": _type(owner),
            "relation": HAS_ATTRIBUTE,
            "tail": value,
            "tail_type": attribute,
            **_placed(place, self.block.start),
            "confidence": sure,
            "reason": reason,
        }


def _placed(place: Stretch | None, start: int) -> Row:
    place = place or Stretch(start, start, "")
    return {"char_start": place.start, "char_end": place.end, "quote": place.quote}


def _unread(bad: Bad) -> Row:
    """The row of a line that is no claim; `quote` is the line."""
    return {
        **dict.fromkeys(("kind", "head", "head_type", "relation", "tail", "tail_type"), ""),
        "char_start": 0,
        "char_end": 0,
        "quote": bad.line,
        "confidence": 0.0,
        "reason": bad.reason,
    }


def _called(entity: EntityLine) -> list[str]:
    return [entity.name, *entity.names]


def _type(entity: EntityLine | None) -> str:
    return entity.type if entity else DOCUMENT


def _those(ids: tuple[int, ...], here: Mapping[int, EntityLine]) -> list[EntityLine]:
    return [here[number] for number in ids if number in here]


def _names(ids: tuple[int, ...], here: Mapping[int, EntityLine]) -> list[str]:
    return [each.name for each in _those(ids, here)]
