"""Questions: read them, encode each one once for every step that follows, and weigh its tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import pyarrow as pa

from srrag.core.schema import QUESTIONS, columns, empty_value
from srrag.core.step import Function, Place, Step
from srrag.index.encode import packed_tokens
from srrag.index.opened import open_sparse
from srrag.index.words import token_weights
from srrag.model.encoder import COLBERT, Encoder, Role, load_tokenizer

if TYPE_CHECKING:
    from srrag.model.embed import LoadedEncoder


MAX_QUESTION_CHARS = 4000
MAX_EXAM_CHARS = 8000
"""Length of a question with options, which may describe a case."""
KINDS = ("node", "triple", "community")
"""What kind of graph element each smaller question looks for."""


def question_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Make a QUESTIONS table; an invalid question becomes a reject row."""
    out: list[dict[str, Any]] = []
    for row in rows:
        blank = {item.name: empty_value(item.type) for item in QUESTIONS}
        given = {k: v for k, v in row.items() if k in blank and v is not None}
        question = {**blank, **given}
        fault = question_fault(question["text"], bool(question["options"])) or _type_fault(question)
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


HALF = "\ufdd0"
"""Stands for half of a surrogate pair where none can pass; Unicode has no character there."""
_BROKEN = re.compile(f"[\ud800-\udfff{HALF}]")


def question_fault(text: object, options: bool = False) -> tuple[str, str] | None:
    """Reason why a question (with options or without) is invalid, or None."""
    if not isinstance(text, str) or not any(char.isalnum() for char in text):
        return "empty_question", "the question holds no word"
    if len(text) > (most := MAX_EXAM_CHARS if options else MAX_QUESTION_CHARS):
        return "long_question", f"{len(text)} characters; the limit is {most}"
    if _BROKEN.search(text):
        return "broken_text", "the question holds half of a character"
    return None


@dataclass(frozen=True, kw_only=True)
class EncodeQuestions(Step):
    """Add the sentence vector and the token vectors of the question.

    `text` names the column to encode in its place, such as `rationale` of WriteRationale.
    """

    text: str = "text"
    encoder: Encoder = field(default_factory=Encoder)

    writes: ClassVar[pa.Schema] = pa.schema(
        columns("query_vector:binary query_tokens:large_binary query_token_scales:binary")
    )
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {
        "query_vector": ("float32", 1e-5),
        "query_tokens": ("int8", 1.0),
        "query_token_scales": ("float16", 1e-4),
    }

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column that is encoded."""
        return (self.text,)

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        model = _load(self.encoder, at)

        def run(batch: pa.Table) -> pa.Table:
            texts = batch[self.text].to_pylist()
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


@dataclass(frozen=True, kw_only=True)
class EncodeTexts(Step):
    """Add the sentence vectors of a list of texts: float32 (n, dim) as bytes, b"" for no text.

    `role` says whether to encode them as passages or as queries.
    """

    texts: str = "hyde_passages"
    into: str = "hyde_vectors"
    role: Role = "passage"
    encoder: Encoder = field(default_factory=Encoder)

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown role."""
        if self.role not in get_args(Role):
            raise ValueError(f"role is {self.role!r}: it can be {' or '.join(get_args(Role))}")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column of lists."""
        return (self.texts,)

    @property
    def writes(self) -> pa.Schema:
        """The column of vectors."""
        return pa.schema([pa.field(self.into, pa.binary(), nullable=False)])

    @property
    def packed(self) -> Mapping[str, tuple[str, float]]:  # type: ignore[override]
        """The vectors are float32."""
        return {self.into: ("float32", 1e-5)}

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        model = _load(self.encoder, at)

        def run(batch: pa.Table) -> pa.Table:
            vectors = _encoded(model, batch[self.texts].to_pylist(), self.role)
            return batch.append_column(self.writes.field(0), pa.array(vectors, pa.binary()))

        return run


@dataclass(frozen=True, kw_only=True)
class EncodeSubQuestions(Step):
    """Add the sentence vectors of the smaller questions by kind: float32 (n, dim) as bytes.

    A kind without questions has no vectors (b""), and SearchGraph then skips that part.
    """

    encoder: Encoder = field(default_factory=Encoder)

    reads: ClassVar[tuple[str, ...]] = ("subquestions",)
    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field(f"{kind}_vectors", pa.binary(), nullable=False) for kind in KINDS]
    )
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {
        f"{kind}_vectors": ("float32", 1e-5) for kind in KINDS
    }

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        model = _load(self.encoder, at)

        def run(batch: pa.Table) -> pa.Table:
            rows = batch["subquestions"].to_pylist()
            lists = [
                [each["text"] for each in row if each["kind"] == kind]
                for kind in KINDS
                for row in rows
            ]
            vectors = _encoded(model, lists, "query")
            for number, item in enumerate(self.writes):
                column = vectors[number * len(rows) : (number + 1) * len(rows)]
                batch = batch.append_column(item, pa.array(column, item.type))
            return batch

        return run


def _load(encoder: Encoder, at: Place) -> LoadedEncoder:
    from srrag.model.embed import load

    return load(encoder, at.device, at.threads)


def _encoded(model: LoadedEncoder, lists: Sequence[Sequence[str]], role: Role) -> list[bytes]:
    """The vectors of each list, from one pass over all lists that encodes equal texts once."""
    distinct = list(dict.fromkeys(text for texts in lists for text in texts))
    if not distinct:
        return [b""] * len(lists)
    vectors = dict(zip(distinct, model.encode(distinct, role), strict=True))
    return [b"".join(vectors[text].tobytes() for text in texts) for texts in lists]


@dataclass(frozen=True, kw_only=True)
class WeighTokens(Step):
    """Add the weight of each of the question's tokens: the IDF of its word in the BM25 index.

    The weights stand for the tokens that `EncodeQuestions` keeps, in their order, as float32 bytes.
    A piece of a word weighs as much as the word. The IDF is that of BM25, ln(1 + (N − n + ½) / (n +
    ½)) with n of N windows that hold the stem; a word that the index leaves out weighs 1. A ColBERT
    learns to weigh tokens by their vectors, so it gets no weights (b""), and all count alike.
    """

    encoder: Encoder = field(default_factory=Encoder)
    text: str = "text"
    index: str = "sparse"

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("query_token_weights", pa.binary())])
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {"query_token_weights": ("float32", 1e-5)}

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column that is encoded."""
        return (self.text,)

    def needs(self) -> tuple[str, ...]:
        """The BM25 index, for the words' frequencies."""
        return (self.index,)

    def open(self, at: Place) -> Function:
        """Map the index, and read the tokenizer."""
        if self.encoder.backend == COLBERT:
            return self._unweighted
        index = open_sparse(at.artifact(self.index))
        tokenizer = load_tokenizer(self.encoder)
        prefix = self.encoder.query_prefix

        def run(batch: pa.Table) -> pa.Table:
            texts = [prefix + text for text in batch[self.text].to_pylist()]
            weights = [found.tobytes() for found in token_weights(texts, tokenizer, index)]
            return batch.append_column(self.writes.field(0), pa.array(weights, pa.binary()))

        return run

    def _unweighted(self, batch: pa.Table) -> pa.Table:
        return batch.append_column(
            self.writes.field(0), pa.array([b""] * batch.num_rows, pa.binary())
        )
