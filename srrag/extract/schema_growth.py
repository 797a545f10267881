"""Propose a new version of the extraction schema; the old one stays (SR-RAG Eq. 12).

A refused fact names the types, relation or attribute that it needs, with the extractor's
confidence. Each window votes once for an element, with its highest confidence. An element is
accepted if enough windows vote and the mean vote reaches the threshold μ.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from srrag.core.ontology import ANY, DOCUMENT, Ontology
from srrag.core.spec import spec
from srrag.core.step import Build, Place
from srrag.storage.manifest import check_part
from srrag.storage.mirror import opened

MAX_NAME_WORDS = 5
NUM_EXAMPLES = 3
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
Row = Mapping[str, Any]
Verdict = Literal["accepted", "few_windows", "below_threshold", "unknown_end"]


class Element(NamedTuple):
    """An entity type, a relation with the types of its ends, or an attribute of a type (head)."""

    kind: Literal["entity", "relation", "attribute"]
    name: str
    head_type: str = ""
    tail_type: str = ""


@dataclass
class ProposalSupport:
    """The windows and documents that propose an element, with example quotes."""

    votes: dict[str, float] = field(default_factory=dict)
    documents: set[str] = field(default_factory=set)
    examples: list[tuple[float, str, str, str]] = field(default_factory=list)
    """Up to NUM_EXAMPLES tuples of negative confidence, window, document and quote."""

    @property
    def confidence(self) -> float:
        """Mean vote; exact summation makes it independent of the order."""
        return math.fsum(self.votes.values()) / len(self.votes)

    def add(self, row: Row) -> None:
        """Count a fact."""
        unit, confidence = row["unit_id"], row["confidence"]
        self.votes[unit] = max(self.votes.get(unit, 0.0), confidence)
        self.documents.add(row["doc_id"])
        self.examples.append((-confidence, unit, row["doc_id"], row["quote"]))
        self.examples = sorted(set(self.examples))[:NUM_EXAMPLES]


def type_name(name: str) -> str:
    """Normalise the name of a type: `age group` → AgeGroup; "" for an invalid name."""
    return "".join(word.capitalize() for word in _words(name))


def term_name(name: str) -> str:
    """Normalise the name of a relation or attribute: `hasAgeGroup` → has_age_group."""
    return "_".join(_words(name))


def _words(name: str) -> list[str]:
    """Return lower-case words; none for an invalid name, since names enter later prompts."""
    words = [word.lower() for word in _WORDS.findall(name)]
    letters = sum(map(len, words))
    plain = len(re.sub(r"[\s_-]", "", name)) == letters and name.isascii()
    named = bool(words) and not words[0].isdigit() and len(words) <= MAX_NAME_WORDS
    return words if plain and named else []


def missing(row: Row, ontology: Ontology) -> Iterator[Element]:
    """Yield the elements that a refused fact needs and the schema lacks; none for bad names."""
    known = {type_name(kind): kind for kind in (*ontology.entities, DOCUMENT)}
    attribute = row["kind"] == "attribute"
    head = known.get(type_name(row["head_type"]), type_name(row["head_type"]))
    if row["kind"] == "entity":
        if head and head not in known.values():
            yield Element("entity", head)
        return
    term = term_name(row["tail_type"] if attribute else row["relation"])
    tail = "" if attribute else known.get(type_name(row["tail_type"]), type_name(row["tail_type"]))
    if not (head and term and (tail or attribute)):
        return
    new = sorted({head, tail} - {*known.values(), ""})
    yield from (Element("entity", name) for name in new)
    if attribute:
        owners = {term_name(name): on for name, on in ontology.attributes.items()}.get(term, [])
        if head not in owners and ANY not in owners:
            yield Element("attribute", term, head)
    elif new or term not in map(term_name, ontology.relations):
        yield Element("relation", term, head, tail)


def collect(rows: Iterable[Row], ontology: Ontology) -> dict[Element, ProposalSupport]:
    """Return the support of each element that the schema lacks, sorted by element."""
    found: dict[Element, ProposalSupport] = defaultdict(ProposalSupport)
    for row in rows:
        for element in missing(row, ontology):
            found[element].add(row)
    return dict(sorted(found.items()))


def judge(
    found: Mapping[Element, ProposalSupport],
    ontology: Ontology,
    *,
    threshold: float,
    min_windows: int,
) -> dict[Element, Verdict]:
    """Accept elements that enough windows propose with a mean confidence of at least μ (Eq. 12).

    A relation or attribute also needs its end types in the schema or among the accepted ones.
    """
    verdicts: dict[Element, Verdict] = {}
    for element, support in found.items():
        if len(support.votes) < min_windows:
            verdicts[element] = "few_windows"
        elif support.confidence < threshold:
            verdicts[element] = "below_threshold"
        else:
            verdicts[element] = "accepted"
    types = {*ontology.entities, DOCUMENT, ""}
    types |= {e.name for e, v in verdicts.items() if e.kind == "entity" and v == "accepted"}
    for element, verdict in verdicts.items():
        if verdict == "accepted" and not {element.head_type, element.tail_type} <= types:
            verdicts[element] = "unknown_end"
    return verdicts


def grown(ontology: Ontology, accepted: Iterable[Element]) -> Ontology:
    """Return the schema with the accepted elements appended; the given schema is unchanged."""
    entities = list(ontology.entities)
    relations = {
        name: {side: list(kinds) for side, kinds in ends.items()}
        for name, ends in ontology.relations.items()
    }
    attributes = {name: list(owners) for name, owners in ontology.attributes.items()}
    spelled = {term_name(name): name for name in (*relations, *attributes)}
    for element in sorted(accepted):
        name = spelled.get(element.name, element.name)
        if element.kind == "entity":
            entities.append(element.name)
        elif element.kind == "attribute":
            attributes.setdefault(name, []).append(element.head_type)
        else:
            ends = relations.setdefault(name, {"head": [], "tail": []})
            for side, kind in (("head", element.head_type), ("tail", element.tail_type)):
                if kind not in ends[side]:
                    ends[side].append(kind)
    return replace(ontology, entities=entities, relations=relations, attributes=attributes)


REASONS = ("proposed", "unknown_type", "unknown_relation", "unknown_attribute")
"""Reject reasons that show gaps in the schema: proposals, and facts outside the schema."""
_COLUMNS = (
    "doc_id", "unit_id", "kind", "head_type", "relation", "tail_type", "quote", "confidence",
    "char_start", "char_end", "reject",
)  # fmt: skip
_JUDGED = ["char_start", "char_end", "reject"]
"""The columns that show whether a part has such facts; quotes are long and read only then."""


@dataclass(frozen=True, kw_only=True)
class GrowSchema(Build):
    """TRIPLES → a report on proposals, and the next version of the schema if any is accepted.

    `number` is the version of the schema in use. `threshold` is μ, the minimum of a proposal's mean
    confidence over the windows that make it, and `min_windows` the minimum number of those windows.
    The schema in use never changes here; the user decides whether to adopt the new file.
    """

    ontology: Ontology
    number: int = 1
    threshold: float = 0.8
    min_windows: int = 5
    triples: str = "triples"

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Raise ValueError for thresholds out of range."""
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold must lie in [0, 1], not {self.threshold}")
        if self.min_windows < 1:
            raise ValueError(f"min_windows must be at least 1, not {self.min_windows}")

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `report.md`, and `schema-N+1.yaml`, which a build accepts, if any is accepted."""
        found = collect(_refused(inputs[self.triples]), self.ontology)
        verdicts = judge(
            found, self.ontology, threshold=self.threshold, min_windows=self.min_windows
        )
        accepted = [element for element in found if verdicts[element] == "accepted"]
        (out / "report.md").write_text(self._report(found, verdicts), "utf-8")
        number = self.number + bool(accepted)
        if accepted:
            schema = spec(grown(self.ontology, accepted))
            text = yaml.safe_dump(schema, sort_keys=False, allow_unicode=True)
            made = f"# Version {number} of the schema\n{text}"
            (out / f"schema-{number}.yaml").write_text(made, "utf-8")
        return {
            "proposed": len(found),
            "accepted": len(accepted),
            "elements": ", ".join(dict.fromkeys(element.name for element in accepted)),
            "version": number,
        }

    def _report(
        self, found: Mapping[Element, ProposalSupport], verdicts: Mapping[Element, Verdict]
    ) -> str:
        lines = [
            f"# Schema version {self.number}: proposals",
            "",
            f"Accepted: at least {self.min_windows} windows, mean confidence {self.threshold:g} "
            f"or more. Version {self.number} stays in use until another is chosen.",
        ]
        # Accepted ones first, then by the number of proposing windows.
        order = sorted(found, key=lambda e: (verdicts[e] != "accepted", -len(found[e].votes), e))
        for element in order:
            support = found[element]
            lines += [
                "",
                f"## {_title(element)}: {verdicts[element]}",
                "",
                f"{len(support.votes)} windows of {len(support.documents)} documents, "
                f"confidence {support.confidence:.3f}",
                "",
            ]
            for _, unit, document, quote in support.examples:
                lines.append(f"    {' '.join(quote.split())}  [{document} {unit}]")
        return "\n".join(lines) + "\n"


def _title(element: Element) -> str:
    if element.kind == "relation":
        return f"relation {element.head_type} {element.name} {element.tail_type}"
    return f"{element.kind} {element.name}" + (
        f" of {element.head_type}" if element.head_type else ""
    )


def _refused(paths: Sequence[Path]) -> Iterator[Row]:
    """Yield facts refused for a missing type, if their window contains the quote."""
    for path in paths:
        check_part(path)
        file = pq.ParquetFile(opened(path))
        if not pc.any(_wanted(file.read(columns=_JUDGED))).as_py():
            continue
        table = file.read(columns=list(_COLUMNS))
        yield from table.filter(_wanted(table)).to_pylist()


def _wanted(facts: pa.Table) -> pa.ChunkedArray:
    reason = pc.struct_field(facts["reject"], "reason")
    # An ungrounded quote, which the model may have invented, has an empty span.
    grounded = pc.greater(facts["char_end"], facts["char_start"])
    return pc.and_(pc.is_in(reason, pa.array(REASONS)), grounded)
