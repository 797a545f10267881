"""The medical entities that a finding names, by their MeSH headings (EbmKG, Eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.schema import INCIDENCE
from srrag.core.step import Function, LLMStep, Place
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced
from srrag.reading.vocabulary import TYPES, Matcher, Vocabulary

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "finding_entities.md")
PAPER_TYPES = TYPES[:7]
MAX_ENTITIES = 24
MAX_HEADINGS = 4
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]


class NamedEntity(Answer):
    """An entity with the headings that it stands for."""

    name: Name
    type: Annotated[str, StringConstraints(strip_whitespace=True, max_length=40)]
    mesh_headings: Annotated[list[Name], Field(max_length=MAX_HEADINGS)]


class NamedEntities(Answer):
    """The entities of a finding."""

    entities: Annotated[list[NamedEntity], Field(max_length=MAX_ENTITIES)]


@dataclass(frozen=True, kw_only=True)
class FindEntities(LLMStep):
    """Add the entities of each finding under their headings: one call a finding.

    Several headings are several entities, and the name in the text is dropped. Types are those of
    the paper; another type is no entity. A heading that `vocabulary` knows has its id and type.

    By rules the entities are the longest matches of the vocabulary in the finding, and its keyword.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    max_tokens: int = 1024

    reads: ClassVar[tuple[str, ...]] = tuple(n for n in INCIDENCE.names if n != "entities")
    writes: ClassVar[pa.Schema] = INCIDENCE
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def open(self, at: Place) -> Function:
        """Bind the engine; rules need no prompt."""
        if not isinstance(self.engine, Rules):
            return super().open(at)
        matcher = self.vocabulary.open()

        def run(batch: pa.Table) -> pa.Table:
            made = {n: {"entities": _matched(row, matcher)} for n, row in live(batch, self.reads)}
            return _whole(batch, made)

        return run

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a finding."""
        system = PROMPT.system(types=", ".join(PAPER_TYPES), most=MAX_ENTITIES)
        return [
            Prompt(
                number,
                "entities",
                system,
                PROMPT.user(snippet=fenced("passage", row["text"])),
                NamedEntities,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The longest matches of the vocabulary that have a type of the paper."""
        find = self.vocabulary.open().find
        texts = batch["text"].to_pylist()
        answers = []
        for prompt in prompts:
            terms = dict.fromkeys(each.term for each in find(texts[prompt.row]))
            named = [
                NamedEntity(name=term.name[:120], type=term.type, mesh_headings=[term.name[:120]])
                for term in terms
                if term.type in PAPER_TYPES
            ]
            answers.append(NamedEntities(entities=named[:MAX_ENTITIES]).model_dump_json())
        return answers

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """The entities of each finding, each once; a lost answer rejects its finding."""
        matcher = self.vocabulary.open()
        made = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            if answer.fault is not None:
                made[prompt.row] = rejected("entities", answer.fault)
                continue
            found: dict[str, Row] = {}
            for each in answer.value.entities:
                if each.type in PAPER_TYPES:
                    for heading in each.mesh_headings or [each.name]:
                        row = _entity(heading, each.type, matcher)
                        found.setdefault(row["name"], row)
            made[prompt.row] = {"entities": list(found.values())}
        return _whole(batch, made)


def _matched(row: Row, matcher: Matcher) -> list[Row]:
    """The vocabulary's terms in a finding, and its keyword."""
    found = {each.term.name: each.term._asdict() for each in matcher.find(row["text"])}
    if row["keyword"]:
        keyword = _entity(row["keyword"], row["keyword_type"], matcher)
        found.setdefault(keyword["name"], keyword)
    return [found[name] for name in sorted(found)]


def _entity(name: str, kind: str, matcher: Matcher) -> Row:
    """A name by its heading if the whole of it is one term of the vocabulary."""
    terms = [each.term for each in matcher.find(name)]
    if len(terms) == 1:
        return dict(terms[0]._asdict())
    return {"name": name, "type": kind, "mesh": ""}


def _whole(batch: pa.Table, made: dict[int, Row]) -> pa.Table:
    added = pa.schema([INCIDENCE.field("entities"), INCIDENCE.field("reject")])
    return filled(batch, added, made).select(INCIDENCE.names).cast(INCIDENCE)
