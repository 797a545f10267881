"""Questions: read them, and encode each one once for every step that follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from srrag.index.encode import packed_tokens
from srrag.model.encoder import Encoder
from srrag.schema import QUESTIONS, empty_value
from srrag.step import Function, Place, Step

MAX_QUESTION_CHARS = 4000


def question_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Make a QUESTIONS table; a question that cannot be asked becomes a reject row."""
    out: list[dict[str, Any]] = []
    for row in rows:
        blank = {item.name: empty_value(item.type) for item in QUESTIONS}
        given = {k: v for k, v in row.items() if k in blank and v is not None}
        question = {**blank, **given}
        fault = question_fault(question["text"]) or _type_fault(question)
        question = {k: v if _fits(k, v) else blank[k] for k, v in question.items()}
        question["reject"] = (
            {"stage": "questions", "reason": fault[0], "detail": fault[1]} if fault else None
        )
        out.append(question)
    return pa.Table.from_pylist(out, schema=QUESTIONS)


def _type_fault(question: Mapping[str, Any]) -> tuple[str, str] | None:
    wrong = [name for name, value in question.items() if not _fits(name, value)]
    return ("wrong_type", f"{wrong[0]!r} is not what a question has there") if wrong else None


def _fits(name: str, value: Any) -> bool:
    try:
        pa.array([value], QUESTIONS.field(name).type)
    except (pa.ArrowException, UnicodeError):
        return False
    return True


def question_fault(text: object) -> tuple[str, str] | None:
    """Why a question cannot be asked, or None."""
    if not isinstance(text, str) or not any(char.isalnum() for char in text):
        return "empty_question", "the question holds no word"
    if len(text) > MAX_QUESTION_CHARS:
        return "long_question", f"{len(text)} characters; the limit is {MAX_QUESTION_CHARS}"
    return None


@dataclass(frozen=True, kw_only=True)
class EncodeQuestions(Step):
    """Adds the question's sentence vector and its token vectors."""

    encoder: Encoder = field(default_factory=Encoder)

    reads: ClassVar[tuple[str, ...]] = ("text",)
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("query_vector", pa.binary()),
            pa.field("query_tokens", pa.large_binary()),
            pa.field("query_token_scales", pa.binary()),
        ]
    )
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {
        "query_vector": ("float32", 1e-5),
        "query_tokens": ("int8", 1.0),
        "query_token_scales": ("float16", 1e-4),
    }

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)

        def run(batch: pa.Table) -> pa.Table:
            texts = batch["text"].to_pylist()
            vectors, tokens = model.encode_tokens(texts, role="query")
            packed = list(packed_tokens(tokens))
            columns = (
                [vector.tobytes() for vector in vectors],
                [values for values, _ in packed],
                [scales for _, scales in packed],
            )
            for item, values in zip(self.writes, columns, strict=True):
                batch = batch.append_column(item, pa.array(values, item.type))
            return batch

        return run
