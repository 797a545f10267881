"""What a model, or the rules in its place, answers for one passage: bounded JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_NAME_CHARS = 300
MAX_QUOTE_CHARS = 700
MAX_FACTS = 128

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NAME_CHARS)
]
Kind = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64)]
Quote = Annotated[str, StringConstraints(max_length=MAX_QUOTE_CHARS)]
Confidence = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Fact(BaseModel):
    """A relation between two entities: (h, r, t) of SR-RAG Eq. 11."""

    model_config = ConfigDict(extra="forbid")

    head: Name
    head_type: Kind
    relation: Kind
    tail: Name
    tail_type: Kind
    quote: Quote
    confidence: Confidence


class Attribute(BaseModel):
    """An attribute of an entity and its value: (e, r_attr, e_attr) of SR-RAG Eq. 11."""

    model_config = ConfigDict(extra="forbid")

    entity: Name
    entity_type: Kind
    attribute: Kind
    value: Name
    quote: Quote
    confidence: Confidence


class Extraction(BaseModel):
    """All facts and attributes of one passage."""

    model_config = ConfigDict(extra="forbid")

    facts: Annotated[list[Fact], Field(max_length=MAX_FACTS)]
    attributes: Annotated[list[Attribute], Field(max_length=MAX_FACTS)]
