"""The keywords of a document, drugs and diseases, from its title and abstract (EbmKG, 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.core.rows import Row, live
from srrag.core.schema import KEYED_DOCUMENTS
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile
from srrag.llm.delimit import fenced, quoted
from srrag.reading.vocabulary import Term, Vocabulary
from srrag.systems.ideprag.hyper_relations import KEYWORD_TYPES

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "document_keywords.md")
MAX_KEYWORDS = 12
MAX_NAME_CHARS = 120
LEAD_CHARS = 2000
"""So many characters at the beginning of the text count as the abstract."""
Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NAME_CHARS)
]


class DocumentKeyword(Answer):
    """A drug or disease that a document is about."""

    name: Name
    type: Literal["Drug", "Disease"]


class DocumentKeywords(Answer):
    """What a document is about."""

    keywords: Annotated[list[DocumentKeyword], Field(max_length=MAX_KEYWORDS)]


@dataclass(frozen=True, kw_only=True)
class FindDocumentKeywords(LLMStep):
    """Name the drugs and diseases that a document is about: one call a document.

    By rules these are the terms of `vocabulary` in the title and the first `LEAD_CHARS` characters,
    those of the title first, then by how often they are named; at most `most`. Symptoms count as
    diseases, as in MeSH's tree. Without a vocabulary rules name nothing.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    most: int = 5
    max_tokens: int = 512

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "text", "grade", "reject")
    writes: ClassVar[pa.Schema] = KEYED_DOCUMENTS
    keeps_rows: ClassVar[bool] = False
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def __post_init__(self) -> None:
        """Raise ValueError for a number of keywords that an answer cannot have."""
        if not 1 <= self.most <= MAX_KEYWORDS:
            raise ValueError(f"most is {self.most}: 1 to {MAX_KEYWORDS} keywords")

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a document."""
        return [
            Prompt(
                number,
                "keywords",
                PROMPT.system(most=self.most),
                PROMPT.user(
                    title=quoted(row["title"]),
                    abstract=fenced("abstract", row["text"][:LEAD_CHARS]),
                ),
                DocumentKeywords,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, ("title", "text"))
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
            ranked = _ranked(titled, body)[: self.most]
            named = [DocumentKeyword(name=t.name[:MAX_NAME_CHARS], type=_type(t)) for t in ranked]
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
                    for each in answer.value.keywords[: self.most]
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
