"""The keywords of documents with their hyper-relations, and units that share them (EbmKG, 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.rows import Row, live
from srrag.core.schema import KEYED_DOCUMENTS, KEYED_UNITS
from srrag.core.spec import content_id
from srrag.core.step import Function, LLMStep, Place, Step
from srrag.corpus.windows import cut_all
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile, fenced, quoted
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.model.encoder import Encoder, load_tokenizer
from srrag.reading.vocabulary import Term, Vocabulary, key

KEYWORD_TYPES = ("Disease", "Drug")
"""The types of keywords; the paper's documents are guidelines and drug labels."""
REST = "general"
"""By rules, the label of a sentence without a cue."""


@dataclass(frozen=True, kw_only=True)
class HyperRelations:
    """The labels of each type of keyword; findings have no other combinations."""

    labels: dict[str, list[str]] = field(
        default_factory=lambda: {
            "Disease": ["symptoms", "causes", "diagnosis", "treatment", "prognosis"],
            "Drug": ["treatment", "usage", "adverse reactions", "contraindications",
                     "drug interactions", "precautions"],
        }
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ValueError that names an unknown type, an empty list or an odd label."""
        for kind, labels in self.labels.items():
            if kind not in KEYWORD_TYPES:
                raise ValueError(f"hyperrelations: {kind!r} is none of {', '.join(KEYWORD_TYPES)}")
            if not labels or len(set(labels)) < len(labels):
                raise ValueError(f"hyperrelations: the labels of {kind} are none, or repeat")
            for label in labels:
                if not label.strip() or len(label) > 60 or not label.isprintable():
                    raise ValueError(f"hyperrelations: {label!r} is no label of {kind}")

    def of(self, kind: str) -> list[str]:
        """The labels of a type, none for an unknown one."""
        return self.labels.get(kind, [])


MAX_KEYWORDS = 5
LEAD_CHARS = 2000
"""So many characters at the beginning of the text count as the abstract."""


class DocumentKeyword(Answer):
    """A drug or disease that a document is about."""

    name: Annotated[str, Text(12, "as Medical Subject Headings have it")]
    type: Annotated[Literal["Drug", "Disease"], Means("a symptom is a disease here")]


class DocumentKeywords(Answer):
    """What a document is about."""

    example: ClassVar[dict[str, Any] | None] = {
        "keywords": [
            {"name": "Dental Caries", "type": "Disease"},
            {"name": "Fluorides, Topical", "type": "Drug"},
        ]
    }

    keywords: Annotated[
        list[DocumentKeyword], Items(MAX_KEYWORDS, "the most important first", "it is on neither")
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "document_keywords.md", DocumentKeywords)


@dataclass(frozen=True, kw_only=True)
class FindDocumentKeywords(LLMStep):
    """Name the drugs and diseases that a document is about: one call a document.

    By rules these are the terms of `vocabulary` in the title and the first `LEAD_CHARS` characters,
    those of the title first, then by how often they are named; at most five. Symptoms count as
    diseases, as in MeSH's tree. Without a vocabulary rules name nothing.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    max_tokens: int = most_tokens(DocumentKeywords)

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "text", "grade", "reject")
    writes: ClassVar[pa.Schema] = KEYED_DOCUMENTS
    keeps_rows: ClassVar[bool] = False
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    version: ClassVar[int] = 3

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a document that has a text; no finding stands in a title."""
        return [
            Prompt(
                number,
                "keywords",
                PROMPT.system(),
                PROMPT.user(
                    title=quoted(row["title"]),
                    abstract=fenced("abstract", row["text"][:LEAD_CHARS]),
                ),
                DocumentKeywords,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, ("title", "text"))
            if row["text"].strip()
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The terms of the vocabulary in title and abstract."""
        find = self.vocabulary.open().find
        rows = batch.select(["title", "text"]).to_pylist()
        answers = []
        for prompt in prompts:
            row = rows[prompt.row]
            titled = [each.term for each in find(row["title"])]
            body = [each.term for each in find(row["text"][:LEAD_CHARS])]
            ranked = _ranked(titled, body)[:MAX_KEYWORDS]
            named = [DocumentKeyword(name=t.name, type=_type(t)) for t in ranked]
            answers.append(DocumentKeywords(keywords=named).model_dump_json())
        return answers

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """A row a document; a keyword has the vocabulary's heading if that has one."""
        names = self.vocabulary.open().names
        rows = batch.select(["doc_id", "title", "text", "grade"]).to_pylist()
        made = []
        for prompt, answer in zip(prompts, completions, strict=True):
            row: Row = {**rows[prompt.row], "keywords": [], "reject": None}
            if answer.fault is not None:
                row["reject"] = {"stage": "keywords", "reason": answer.fault.kind,
                                 "detail": answer.fault.detail}  # fmt: skip
            else:
                row["keywords"] = [
                    _keyword(each, names.get(key(each.name)))
                    for each in answer.value.keywords[:MAX_KEYWORDS]
                ]
            made.append(row)
        return pa.Table.from_pylist(made, schema=KEYED_DOCUMENTS)


def _ranked(titled: Sequence[Term], body: Sequence[Term]) -> list[Term]:
    """Terms that can be keywords: the title's, then the others by number, then by place."""
    counts = Counter(body)
    places = {term: place for place, term in reversed(list(enumerate([*titled, *body])))}
    fit = [term for term in places if term.type in (*KEYWORD_TYPES, "Symptom")]
    return sorted(fit, key=lambda term: (term not in titled, -counts[term], places[term]))


def _type(term: Term) -> Literal["Drug", "Disease"]:
    return "Drug" if term.type == "Drug" else "Disease"


def _keyword(named: DocumentKeyword, term: Term | None) -> Row:
    """A keyword, by its heading if the whole name is one term."""
    return {
        "name": term.name if term else named.name,
        "type": named.type,
        "mesh": term.mesh if term else "",
    }


@dataclass(frozen=True, kw_only=True)
class CutKeyedUnits(Step):
    """Cut documents into units of at most `size_tokens` that share the document's keywords.

    EbmKG slices at 1,024 tokens with an overlap of 200 (appendix A.3).
    """

    reads: ClassVar[tuple[str, ...]] = tuple(KEYED_DOCUMENTS.names)
    writes: ClassVar[pa.Schema] = KEYED_UNITS
    keeps_rows: ClassVar[bool] = False

    encoder: Encoder = field(default_factory=Encoder)
    size_tokens: int = 1024
    overlap_tokens: int = 200

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible size or overlap."""
        if self.size_tokens < 16:
            raise ValueError(f"size_tokens is {self.size_tokens}: units need 16 tokens at least")
        if not 0 <= 2 * self.overlap_tokens < self.size_tokens:
            raise ValueError(f"overlap_tokens is {self.overlap_tokens}: less than half a unit")

    def open(self, at: Place) -> Function:
        """Load the tokenizer."""
        tokenize = load_tokenizer(self.encoder).spans

        def run(batch: pa.Table) -> pa.Table:
            documents = batch.filter(pc.is_null(batch["reject"]))
            texts = documents["text"].to_pylist()
            rows, starts, ends, _ = cut_all(texts, tokenize, self.size_tokens, self.overlap_tokens)
            taken = documents.take(pa.array(rows))
            spans = list(zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True))
            doc_ids = taken["doc_id"].to_pylist()
            columns = {
                "unit_id": [
                    content_id(doc_id, "text unit", str(low), str(high))
                    for doc_id, (_, low, high) in zip(doc_ids, spans, strict=True)
                ],
                "doc_id": doc_ids,
                "title": taken["title"],
                "char_start": starts.astype(np.int32),
                "char_end": ends.astype(np.int32),
                "text": [texts[row][low:high] for row, low, high in spans],
                "grade": taken["grade"],
                "keywords": taken["keywords"],
                "reject": pa.nulls(len(spans), KEYED_UNITS.field("reject").type),
            }
            return pa.table(columns, schema=KEYED_UNITS)

        return run
