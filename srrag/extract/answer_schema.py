"""The answer of a model, or of the rules, for one passage: bounded JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from srrag.llm.completion import Answer

MAX_NAME_CHARS = 300
MAX_QUOTE_CHARS = 400
MAX_FACTS = 40
MAX_ATTRIBUTES = 28
"""The maximum in 1,099 chunks of abstracts, read by rules: 43 facts, 27 attributes."""
MAX_PROPOSALS = 4

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NAME_CHARS)
]
Kind = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=48)]
Quote = Annotated[str, StringConstraints(max_length=MAX_QUOTE_CHARS)]
Confidence = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Fact(Answer):
    """A relation between two entities: (h, r, t) of SR-RAG Eq. 11."""

    head: Name
    head_type: Kind
    relation: Kind
    tail: Name
    tail_type: Kind
    quote: Quote
    confidence: Confidence


class Attribute(Answer):
    """An attribute of an entity and its value: (e, r_attr, e_attr) of SR-RAG Eq. 11."""

    entity: Name
    entity_type: Kind
    attribute: Kind
    value: Name
    quote: Quote
    confidence: Confidence


class Proposal(Fact):
    """What a passage says and the schema lacks a type, relation or attribute for (Eq. 12).

    Of an attribute, `relation` is has_attribute and `tail_type` the attribute. `confidence` is how
    sure the model is that the schema should have it.
    """

    kind: Literal["relation", "attribute"]


class Extraction(Answer):
    """All facts and attributes of one passage, and what its schema lacks."""

    facts: Annotated[list[Fact], Field(max_length=MAX_FACTS)]
    attributes: Annotated[list[Attribute], Field(max_length=MAX_ATTRIBUTES)]
    proposals: Annotated[list[Proposal], Field(max_length=MAX_PROPOSALS)]
