"""Constrained extraction of facts from passages (SR-RAG §4.3, Eq. 10 and 11)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, ClassVar

import pyarrow as pa
import pydantic

from srrag.extract.answer_schema import MAX_FACTS, Extraction
from srrag.extract.grounding import ground
from srrag.extract.ontology import DOCUMENT, HAS_ATTRIBUTE, Ontology
from srrag.extract.rules.facts import extract_facts
from srrag.ids import content_id
from srrag.schema import TRIPLES
from srrag.step import LLMStep, Prompt

PROMPT = Path(__file__).parent / "prompts" / "extract_triples.md"
_MAX_DETAIL_CHARS = 200
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ExtractTriples(LLMStep):
    """Read each chunk and write its facts and attributes, each grounded in a quote.

    A fact outside the schema, without its quote in the chunk, or below `min_confidence` is kept
    with a reject: unknown_type, unknown_relation, type_mismatch, ungrounded, low_confidence; an
    answer that is not the schema's JSON gives one row with invalid_json. Units of other views
    and units already rejected have no facts.

    The rules find PICO types. Where the ontology lacks them (neutral schema, Table S2) they
    write Population, Condition, Intervention, Comparator and Arm as ClinicalConcept (`mentions`,
    or `associated_with` between two concepts), Outcome as OutcomeMeasure (`reports_measure`);
    Device, AdverseEvent, Recommendation and Contraindication keep their names; Timepoint is left
    out. They never fill EvidenceStatement, Study, Guideline, Protocol, Topic, nor the attributes
    adverse_event, contraindication and applicability_notes.
    """

    ontology: Ontology
    min_confidence: float = 0.0

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
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT,)

    def __post_init__(self) -> None:
        """Check the threshold."""
        if not 0.0 <= self.min_confidence <= 1.0:
            raise ValueError(f"min_confidence must lie in [0, 1], not {self.min_confidence}")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a chunk that is not rejected and holds text."""
        system, user = _templates()
        system_text = system.substitute(ontology=self.ontology.describe())
        views, sections, texts = (
            batch.column(name).to_pylist() for name in ("view", "section", "text")
        )
        live = batch.column("reject").is_null().to_pylist()
        return [
            Prompt(
                row=row,
                slot="extract",
                system=system_text,
                user=user.substitute(section=sections[row], passage=_fenced(texts[row])),
                schema=Extraction,
            )
            for row in range(batch.num_rows)
            if live[row] and views[row] == "chunk" and texts[row].strip()
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer by the rules of `srrag.extract.rules`."""
        rows = pa.array([prompt.row for prompt in prompts], pa.int64())
        units = batch.select(["text", "section", "char_start"]).take(rows).to_pydict()
        answers = extract_facts(
            units["text"],
            units["section"],
            [start == 0 for start in units["char_start"]],
            ["document"] * len(prompts),
            self.ontology,
        )
        return [
            json.dumps({"facts": facts[:MAX_FACTS], "attributes": attributes[:MAX_FACTS]})
            for facts, attributes in answers
        ]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[str]
    ) -> pa.Table:
        """Check every fact against the schema and the text; one row a fact."""
        units = batch.select(["unit_id", "doc_id", "char_start", "text", "grade"]).to_pylist()
        rows: list[Row] = []
        for prompt, completion in zip(prompts, completions, strict=True):
            rows.extend(self._rows(units[prompt.row], completion))
        return pa.Table.from_pylist(rows, schema=TRIPLES)

    def _rows(self, unit: Row, completion: str) -> list[Row]:
        try:
            answer = Extraction.model_validate_json(completion)
        except ValueError as error:
            return [_invalid(unit, completion, error)]
        rows: dict[str, Row] = {}
        for claim in _claims(unit, answer):
            row = self._checked(unit, claim)
            rows.setdefault(row["fact_id"], row)
        return list(rows.values())

    def _checked(self, unit: Row, claim: Row) -> Row:
        """Place the claim in the document; set `reject` to the first rule that it breaks."""
        span = ground(claim["quote"], unit["text"])
        fault = self._fault(claim)
        if fault is None and (span is None or not (claim["head"] and claim["tail"])):
            fault = ("ungrounded", claim["quote"])
        if fault is None and claim["confidence"] < self.min_confidence:
            fault = ("low_confidence", f"{claim['confidence']} < {self.min_confidence}")
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
        # A rejected claim is told apart by its quote and reason too: it may share a fact's words.
        extra = (fault[0], claim["quote"]) if fault else ()
        row["fact_id"] = content_id(*(row[p] for p in parts), str(row["char_start"]), *extra)
        return row

    def _fault(self, claim: Row) -> tuple[str, str] | None:
        """The rule of Eq. 11 that the claim breaks, and the words that break it."""
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


def _templates() -> tuple[Template, Template]:
    system, user = PROMPT.read_text("utf-8").split("# User\n", 1)
    return Template(system.removeprefix("# System\n").strip()), Template(user.strip())


def _fenced(text: str) -> str:
    """Keep a passage from closing its own delimiter."""
    return text.replace("</passage", "< /passage")


def _claims(unit: Row, answer: Extraction) -> Iterator[Row]:
    """Facts, then attributes, as columns of TRIPLES; the document stands for itself by its id."""

    def named(name: str, kind: str) -> str:
        return str(unit["doc_id"]) if kind == DOCUMENT else " ".join(name.split())

    for fact in answer.facts:
        yield {
            "kind": "relation",
            "head": named(fact.head, fact.head_type),
            "head_type": fact.head_type,
            "relation": fact.relation,
            "tail": named(fact.tail, fact.tail_type),
            "tail_type": fact.tail_type,
            "quote": fact.quote,
            "confidence": fact.confidence,
        }
    for item in answer.attributes:
        yield {
            "kind": "attribute",
            "head": named(item.entity, item.entity_type),
            "head_type": item.entity_type,
            "relation": HAS_ATTRIBUTE,
            "tail": " ".join(item.value.split()),
            "tail_type": item.attribute,
            "quote": item.quote,
            "confidence": item.confidence,
        }


def _invalid(unit: Row, completion: str, error: ValueError) -> Row:
    """The one row of an answer that is not JSON of the schema."""
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        detail = f"{where}: {first['msg']}" if where else str(first["msg"])
    else:
        detail = type(error).__name__
    return {
        "fact_id": content_id(unit["unit_id"], "invalid_json", completion),
        "doc_id": unit["doc_id"],
        "unit_id": unit["unit_id"],
        **dict.fromkeys(("kind", "head", "head_type", "relation", "tail", "tail_type"), ""),
        "char_start": unit["char_start"],
        "char_end": unit["char_start"],
        "quote": "",
        "confidence": 0.0,
        "grade": unit["grade"],
        "reject": _reject("invalid_json", detail),
    }


def _reject(reason: str, detail: str) -> dict[str, str]:
    safe = detail.encode("utf-8", "replace").decode("utf-8")
    return {"stage": "extract", "reason": reason, "detail": safe[:_MAX_DETAIL_CHARS]}
