"""Turn the claims of an answer into columns of TRIPLES, before any is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from srrag.extract.answer_schema import Extraction, Fact
from srrag.ontology import DOCUMENT, HAS_ATTRIBUTE

Row = dict[str, Any]


def claims(unit: Mapping[str, Any], answer: Extraction) -> Iterator[Row]:
    """Yield facts, then attributes, as columns of TRIPLES; the document's name is its id."""
    for fact in answer.facts:
        yield _relation(unit, fact)
    for item in answer.attributes:
        yield {
            "kind": "attribute",
            "head": _named(unit, item.entity, item.entity_type),
            "head_type": item.entity_type,
            "relation": HAS_ATTRIBUTE,
            "tail": " ".join(item.value.split()),
            "tail_type": item.attribute,
            "quote": item.quote,
            "confidence": item.confidence,
        }


def proposals(unit: Mapping[str, Any], answer: Extraction) -> Iterator[Row]:
    """Yield the proposals for the schema, as columns of TRIPLES."""
    for proposal in answer.proposals:
        claim = _relation(unit, proposal) | {"kind": proposal.kind}
        yield claim | {"relation": HAS_ATTRIBUTE} if proposal.kind == "attribute" else claim


def _relation(unit: Mapping[str, Any], fact: Fact) -> Row:
    return {
        "kind": "relation",
        "head": _named(unit, fact.head, fact.head_type),
        "head_type": fact.head_type,
        "relation": fact.relation,
        "tail": _named(unit, fact.tail, fact.tail_type),
        "tail_type": fact.tail_type,
        "quote": fact.quote,
        "confidence": fact.confidence,
    }


def _named(unit: Mapping[str, Any], name: str, kind: str) -> str:
    return str(unit["doc_id"]) if kind == DOCUMENT else " ".join(name.split())
