"""The keywords of a document, drugs and diseases, from its title and abstract (EbmKG, 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from srrag.core.rows import Row, live
from srrag.core.schema import KEYED_DOCUMENTS
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile, fenced, quoted
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.vocabulary import Term, Vocabulary
from srrag.systems.ideprag.hyper_relations import KEYWORD_TYPES

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
    version: ClassVar[int] = 2

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
        find = self.vocabulary.open().find
        rows = batch.select(["doc_id", "title", "text", "grade"]).to_pylist()
        made = []
        for prompt, answer in zip(prompts, completions, strict=True):
            row: Row = {**rows[prompt.row], "keywords": [], "reject": None}
            if answer.fault is not None:
                row["reject"] = {"stage": "keywords", "reason": answer.fault.kind,
                                 "detail": answer.fault.detail}  # fmt: skip
            else:
                row["keywords"] = [
                    _keyword(each, [found.term for found in find(each.name)])
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


def _keyword(named: DocumentKeyword, found: Sequence[Term]) -> Row:
    """A keyword, by its heading if the whole name is one term."""
    term = found[0] if len(found) == 1 else None
    return {
        "name": term.name if term else named.name,
        "type": named.type,
        "mesh": term.mesh if term else "",
    }
