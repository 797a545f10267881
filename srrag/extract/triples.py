"""Constrained extraction of facts from passages (SR-RAG §4.3, Eq. 10 and 11)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.algo.grounding import ground
from srrag.extract.answer_schema import (
    MAX_ATTRIBUTES,
    MAX_FACTS,
    MAX_PROPOSALS,
    MAX_QUOTE_CHARS,
    Extraction,
)
from srrag.extract.claims import claims, proposals
from srrag.extract.find_mentions import FindByRules, FindMentions
from srrag.extract.rule_facts import extract_facts
from srrag.ids import content_id
from srrag.llm.completion import Completion, Enums, Fault, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced, inert, quoted
from srrag.mentions.concepts import CONCEPTS
from srrag.ontology import Ontology
from srrag.schema import TRIPLES
from srrag.step import Function, LLMStep, Place

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "extract_triples.md")

_BEYOND_SCHEMA = ("unknown_type", "unknown_relation", "type_mismatch")
_MAX_DETAIL_CHARS = 200
_MAX_SHOWN = 5
_MAX_SHOWN_CHARS = 60
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ExtractTriples(LLMStep):
    """Read each chunk and write its facts and attributes, each grounded in a quote.

    A fact outside the schema, without its quote in the chunk, or below `min_confidence` stays as a
    reject: unknown_type, unknown_relation, type_mismatch, ungrounded, low_confidence. A faulty
    answer gives one row with the kind of the fault. Units of other views and rejected units have no
    facts. A model's proposals for the schema are rejects with the reason `proposed`, which
    GrowSchema reads; the rules propose nothing.

    The rules find PICO types. Where the ontology lacks them (neutral schema, Table S2) they write
    Population, Condition, Intervention, Comparator and Arm as ClinicalConcept (`mentions`, or
    `associated_with` between two concepts), Outcome as OutcomeMeasure (`reports_measure`); Device,
    AdverseEvent, Recommendation and Contraindication keep their names; Timepoint is left out. They
    never fill EvidenceStatement, Study, Guideline, Protocol, Topic, nor the attributes
    adverse_event, contraindication and applicability_notes.

    With the rules as engine, `mentions` selects the source of the typed mentions behind the facts:
    the rules or a trained tagger. A language model finds its own mentions.
    """

    ontology: Ontology
    mentions: FindMentions = field(default_factory=FindByRules)
    min_confidence: float = 0.0
    max_faulty_share: float = 0.2
    """Maximum share of claims that break a rule before the model is asked again."""
    max_tokens: int = 4096
    """Full lists of claims of the median size (214 and 154 characters) are some 3,700 tokens."""

    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = (
        "unit_id",
        "doc_id",
        "view",
        "section",
        "char_start",
        "text",
        "grade",
        "reject",
    )
    writes: ClassVar[pa.Schema] = TRIPLES
    keeps_rows: ClassVar[bool] = False
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def __post_init__(self) -> None:
        """Raise ValueError for thresholds out of range, or for a tagger beside a language model."""
        for name in ("min_confidence", "max_faulty_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], not {getattr(self, name)}")
        if not isinstance(self.engine, Rules) and not isinstance(self.mentions, FindByRules):
            raise ValueError(
                f"mentions: engine {self.engine.name!r} finds its own; to extract by "
                f"{self.mentions.name!r}, stages.triples.run.engine has to be the rules"
            )

    def identity(self) -> dict[str, Any]:
        """The prompt; by rules also the version of the naming rules."""
        rules = {"names": CONCEPTS} if isinstance(self.engine, Rules) else {}
        return super().identity() | rules

    @property
    def answered_by(self) -> str:
        """The author of the facts, as named in outputs."""
        by_rules = isinstance(self.mentions, FindByRules)
        return self.engine.name if by_rules else f"{self.mentions.name}, relations by rules"

    def open(self, at: Place) -> Function:
        """Load the finder of mentions and bind the engine."""
        self.mentions.open(at.threads)
        return super().open(at)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each chunk that has text and is not rejected."""
        system = PROMPT.system(
            ontology=self.ontology.describe(),
            max_facts=MAX_FACTS,
            max_attributes=MAX_ATTRIBUTES,
            max_proposals=MAX_PROPOSALS,
        )
        views, sections, texts = (
            batch.column(name).to_pylist() for name in ("view", "section", "text")
        )
        live = batch.column("reject").is_null().to_pylist()
        enums = _enums(self.ontology)
        return [
            Prompt(
                row=row,
                slot="extract",
                system=system,
                user=PROMPT.user(
                    section=quoted(sections[row]), passage=fenced("passage", texts[row])
                ),
                schema=Extraction,
                max_tokens=self.max_tokens,
                enums=enums,
            )
            for row in range(batch.num_rows)
            if live[row] and views[row] == "chunk" and texts[row].strip()
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer by rules, from the mentions that `mentions` finds."""
        rows = pa.array([prompt.row for prompt in prompts], pa.int64())
        units = batch.select(["text", "section", "char_start"]).take(rows).to_pydict()
        answers = extract_facts(
            units["text"],
            units["section"],
            [start == 0 for start in units["char_start"]],
            ["document"] * len(prompts),
            self.ontology,
            self.mentions.find,
        )
        return [
            json.dumps(
                {
                    "facts": _bounded(facts, MAX_FACTS),
                    "attributes": _bounded(attributes, MAX_ATTRIBUTES),
                    "proposals": [],
                }
            )
            for facts, attributes in answers
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault if too many claims break a rule: the commonest kind, and its claims."""
        unit = batch.select(["doc_id", "text"]).slice(prompt.row, 1).to_pylist()[0]
        faults: dict[str, list[str]] = defaultdict(list)
        made = list(claims(unit, value))
        for claim in made:
            if broken := self._judge(unit["text"], claim)[1]:
                faults[broken[0]].append(broken[1])
        faults.pop("low_confidence", None)
        if sum(map(len, faults.values())) <= self.max_faulty_share * len(made):
            return None
        kind = max(faults, key=lambda kind: len(faults[kind]))
        return Fault(kind, _told(kind, faults[kind]))

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Check every fact against the schema and the text; returns one row for each fact."""
        units = batch.select(["unit_id", "doc_id", "char_start", "text", "grade"]).to_pylist()
        rows: list[Row] = []
        for prompt, completion in zip(prompts, completions, strict=True):
            rows.extend(self._rows(units[prompt.row], completion))
        return pa.Table.from_pylist(rows, schema=TRIPLES)

    def _rows(self, unit: Row, completion: Completion) -> list[Row]:
        if completion.fault is not None:
            return [_refused(unit, completion.fault)]
        rows: dict[str, Row] = {}
        for claim in claims(unit, completion.value):
            row = _placed(unit, claim, *self._judge(unit["text"], claim))
            rows.setdefault(row["fact_id"], row)
        for claim in proposals(unit, completion.value):
            span, fault = self._judge(unit["text"], claim)
            if fault and fault[0] in _BEYOND_SCHEMA:
                said = span is not None and claim["head"] and claim["tail"]
                fault = ("proposed" if said else "ungrounded", fault[1])
            row = _placed(unit, claim, span, fault)
            rows.setdefault(row["fact_id"], row)
        return list(rows.values())

    def _judge(
        self, text: str, claim: Row
    ) -> tuple[tuple[int, int] | None, tuple[str, str] | None]:
        """Return the span of the quote in the text, and the first rule that the claim breaks."""
        span = ground(claim["quote"], text) or ground(_as_typed(claim["quote"]), _as_typed(text))
        fault = self._fault(claim)
        if fault is None and (span is None or not (claim["head"] and claim["tail"])):
            fault = ("ungrounded", claim["quote"])
        if fault is None and claim["confidence"] < self.min_confidence:
            fault = ("low_confidence", f"{claim['confidence']} < {self.min_confidence}")
        return span, fault

    def _fault(self, claim: Row) -> tuple[str, str] | None:
        """Return the rule of Eq. 11 that the claim breaks, and the offending words."""
        schema = self.ontology
        head, relation, tail = claim["head_type"], claim["relation"], claim["tail_type"]
        attribute = claim["kind"] == "attribute"
        known_tail = tail in schema.attributes if attribute else schema.knows_type(tail)
        if not (known_tail and schema.knows_type(head)):
            return "unknown_type", tail if schema.knows_type(head) else head
        if not attribute and relation not in schema.relations:
            return "unknown_relation", relation
        if attribute:
            fits = schema.admits_attribute(head, tail)
        else:
            fits = schema.admits(head, relation, tail)
        return None if fits else ("type_mismatch", f"{head} {relation} {tail}")


# Models change quotation marks and dashes when they copy, and guided decoding allows no
# double quotation mark in a bounded string.
_TYPED = str.maketrans({**dict.fromkeys('"“”„«»‘’‚`', "'"), **dict.fromkeys("‐‑‒–—−", "-")})


def _as_typed(text: str) -> str:
    """Replace the characters that prompts and models replace, without moving any offset."""
    return inert(text).translate(_TYPED)


_WANTED: Mapping[str, str] = {
    "unknown_type": "These types are not in the schema: {}. Use the types and attributes it lists.",
    "unknown_relation": "These relations are not in the schema: {}. Use the relations it lists.",
    "type_mismatch": "The schema does not allow: {}. Keep to the types it gives for each end.",
    "ungrounded": "The passage does not hold these quotes: {}. Copy each quote from it, unchanged "
    "and in one stretch, or leave the claim out.",
}


def _enums(ontology: Ontology) -> Enums:
    """Return the types, relations and attributes of the schema; proposals stay free."""
    types, attributes = tuple(ontology.entities), tuple(sorted(ontology.attributes))
    fields = {
        "Fact.head_type": types,
        "Fact.relation": tuple(sorted(ontology.relations)),
        "Fact.tail_type": types,
        "Attribute.entity_type": types,
        "Attribute.attribute": attributes,
    }
    return tuple((name, values) for name, values in fields.items() if values)


def _told(kind: str, words: Sequence[str]) -> str:
    """Describe faulty claims for the retry prompt: the first few, shortened, as data."""
    different = list(dict.fromkeys(words))
    shown = [quoted(word[:_MAX_SHOWN_CHARS]) for word in different[:_MAX_SHOWN]]
    more = len(different) - len(shown)
    return _WANTED[kind].format(", ".join(shown) + (f" and {more} more" if more else ""))


def _bounded(found: list[Row], most: int) -> list[Row]:
    """Return the rules' claims that fit the bounds of the answer schema."""
    return [claim for claim in found if len(claim["quote"]) <= MAX_QUOTE_CHARS][:most]


def _placed(
    unit: Row, claim: Row, span: tuple[int, int] | None, fault: tuple[str, str] | None
) -> Row:
    """Build the row of a claim with its span in the document; `reject` holds its fault, if any."""
    start, end = span or (0, 0)
    row: Row = {
        "doc_id": unit["doc_id"],
        "unit_id": unit["unit_id"],
        "grade": unit["grade"],
        **claim,
        "quote": unit["text"][start:end] if span else claim["quote"],
        "char_start": unit["char_start"] + start,
        "char_end": unit["char_start"] + end,
        "reject": _reject(*fault) if fault else None,
    }
    parts = ("unit_id", "head", "head_type", "relation", "tail", "tail_type")
    # A rejected claim may share a fact's words, so its id includes quote and reason.
    extra = (fault[0], claim["quote"]) if fault else ()
    row["fact_id"] = content_id(*(row[p] for p in parts), str(row["char_start"]), *extra)
    return row


def _refused(unit: Row, fault: Fault) -> Row:
    """Build the single row of a faulty answer."""
    return {
        "fact_id": content_id(unit["unit_id"], fault.kind),
        "doc_id": unit["doc_id"],
        "unit_id": unit["unit_id"],
        **dict.fromkeys(("kind", "head", "head_type", "relation", "tail", "tail_type"), ""),
        "char_start": unit["char_start"],
        "char_end": unit["char_start"],
        "quote": "",
        "confidence": 0.0,
        "grade": unit["grade"],
        "reject": _reject(fault.kind, fault.detail),
    }


def _reject(reason: str, detail: str) -> dict[str, str]:
    safe = detail.encode("utf-8", "replace").decode("utf-8")
    return {"stage": "extract", "reason": reason, "detail": safe[:_MAX_DETAIL_CHARS]}
