"""The medical entities of a question to look up in the hypergraph (EbmKG, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa

from srrag.core.rows import filled, live, rejected
from srrag.core.schema import REJECT
from srrag.core.step import Function, LLMStep, Place
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile, Rules, fenced, quoted
from srrag.llm.fields import Items, Text, most_tokens
from srrag.systems.ideprag.build_hypergraph import grams_of
from srrag.systems.ideprag.hypergraph_reader import Hypergraph

MAX_TERMS = 16


class SearchWords(Answer):
    """What to look up."""

    example: ClassVar[dict[str, Any] | None] = {
        "terms": ["Dental Caries", "Fluorides, Topical", "Tooth, Deciduous", "Child, Preschool",
                  "Fluorosis, Dental"]
    }  # fmt: skip

    terms: Annotated[
        list[Annotated[str, Text(10, "as Medical Subject Headings have it")]],
        Items(MAX_TERMS, "what the question names, and what it and its options imply", fewest=5),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "search_words.md", SearchWords)


@dataclass(frozen=True, kw_only=True)
class FindSearchWords(LLMStep):
    """Name the entities of a question: at least five, of a model (appendix A.2).

    By rules they are the names of the hypergraph in the question: the longest matches, and each
    word or pair of words that is an entity.
    """

    graph: str = "hypergraph"
    max_tokens: int = most_tokens(SearchWords)

    reads: ClassVar[tuple[str, ...]] = ("text", "options")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("search_words", pa.list_(pa.string()), nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 2

    def needs(self) -> tuple[str, ...]:
        """The hypergraph, by rules; a model needs none."""
        return (self.graph,) if isinstance(self.engine, Rules) else ()

    def open(self, at: Place) -> Function:
        """Bind the engine, or map the names."""
        if not isinstance(self.engine, Rules):
            return super().open(at)
        graph = Hypergraph(at.artifact(self.graph))

        def run(batch: pa.Table) -> pa.Table:
            rows = live(batch, self.reads)
            made = {n: {"search_words": words_of(row["text"], graph)} for n, row in rows}
            return filled(batch, self.writes, made)

        return run

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a question."""
        system = PROMPT.system()
        return [
            Prompt(
                number,
                "search words",
                system,
                PROMPT.user(question=fenced("question", row["text"]), options=told(row["options"])),
                SearchWords,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The content words; nothing looks them up here."""
        texts = batch["text"].to_pylist()
        found = [grams_of(texts[prompt.row])[:MAX_TERMS] for prompt in prompts]
        return [SearchWords(terms=terms or ["?"]).model_dump_json() for terms in found]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """The terms, each once."""
        made = {
            prompt.row: rejected("search_words", answer.fault)
            if answer.fault is not None
            else {"search_words": list(dict.fromkeys(answer.value.terms))}
            for prompt, answer in zip(prompts, completions, strict=True)
        }
        return filled(batch, self.writes, made)


def told(options: Sequence[str]) -> str:
    """The options of a question on a line, "" for none."""
    return f"\nOptions: {quoted(options)}" if options else ""


def words_of(text: str, graph: Hypergraph) -> list[str]:
    """The names of entities in a text."""
    names = [each.term.name for each in graph.matcher.find(text)]
    return list(dict.fromkeys([*names, *(gram for gram in grams_of(text) if gram in graph.by_key)]))
