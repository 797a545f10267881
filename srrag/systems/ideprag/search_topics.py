"""The entities of a question, and the topics of the hypergraph that a walk from them finds.

EbmKG, section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.rows import Row, RowStep, filled, live, with_columns
from srrag.core.schema import TOPICS, non_null, relation
from srrag.core.step import Function, Place, Step
from srrag.llm.completion import Answer, PromptFile, Rules, fenced, quoted
from srrag.llm.fields import Items, Text, most_tokens
from srrag.model.encoder import Encoder
from srrag.reading.vocabulary import key
from srrag.systems.ideprag.build_hypergraph import grams_of
from srrag.systems.ideprag.document_keywords import REST
from srrag.systems.ideprag.hypergraph import Hypergraph, expected_visits

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
class FindSearchWords(RowStep):
    """Name the entities of a question: at least five, of a model (appendix A.2).

    By rules they are the names of the hypergraph in the question: the longest matches, and each
    word or pair of words that is an entity.
    """

    graph: str = "hypergraph"
    max_tokens: int = most_tokens(SearchWords)

    reads: ClassVar[tuple[str, ...]] = ("text", "options")
    writes: ClassVar[pa.Schema] = relation("search_words:strings")
    slot: ClassVar[str] = "search words"
    stage: ClassVar[str] = "search_words"
    file: ClassVar[PromptFile] = PROMPT
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 3

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

    def told(self, row: Row) -> Row:
        """The question and its options."""
        return {"question": fenced("question", row["text"]), "options": told(row["options"])}

    def ruled(self, rows: Sequence[Row]) -> Iterable[Answer]:
        """The content words; nothing looks them up here."""
        found = [grams_of(row["text"])[:MAX_TERMS] for row in rows]
        return [SearchWords(terms=terms or ["?"]) for terms in found]

    def columns(self, value: Any, row: Row) -> Row:
        """The terms, each once."""
        return {"search_words": list(dict.fromkeys(value.terms))}


def told(options: Sequence[str]) -> str:
    """The options of a question on a line, "" for none."""
    return f"\nOptions: {quoted(options)}" if options else ""


def words_of(text: str, graph: Hypergraph) -> list[str]:
    """The names of entities in a text."""
    names = [each.term.name for each in graph.matcher.find(text)]
    return list(dict.fromkeys([*names, *(gram for gram in grams_of(text) if gram in graph.by_key)]))


Floats = npt.NDArray[np.float32]
_DECIMALS = 5
_POOLED = 40
"""For each topic kept, this many of the most visited are compared with the question."""


@dataclass(frozen=True, kw_only=True)
class SearchTopics(Step):
    """Add the `topics` best topics of a walk from the entities that the search words name.

    Each search word is linked to the entity of that name, and to the nearest names, up to `nearest`
    in all (n_m; the paper tries 1, 3 and 5). With `asked`, the question itself is also linked to
    its nearest name. The walk takes `steps` (α, not published) steps from entity to topic and back.
    The paper counts the visits of drawn walks; here their expectation is computed.

    `guide` γ multiplies the visits by exp(γ · cosine of question and topic), which the paper lacks;
    with 0, only visits count (Eq. 8). The first `shown` topics have their text, each once and
    without a head that tells no label, for a model to read.

    A question whose words name nothing has no topic, and so no evidence.
    """

    encoder: Encoder = field(default_factory=Encoder)
    nearest: int = 1
    asked: bool = True
    steps: int = 3
    topics: int = 150
    guide: float = 4.0
    shown: int = 60
    graph: str = "hypergraph"
    version: ClassVar[int] = 4

    reads: ClassVar[tuple[str, ...]] = ("search_words", "query_vector")
    writes: ClassVar[pa.Schema] = non_null(("linked", pa.list_(pa.string())), ("topics", TOPICS))

    def __post_init__(self) -> None:
        """Raise ValueError for impossible numbers."""
        for name in ("nearest", "steps", "topics"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: at least 1")
        if not 0 <= self.guide <= 100 or self.shown < 0:
            raise ValueError("guide lies between 0 and 100, and shown is at least 0")

    def needs(self) -> tuple[str, ...]:
        """The hypergraph."""
        return (self.graph,)

    def open(self, at: Place) -> Function:
        """Map the hypergraph."""
        from srrag.model.embed import load

        graph = Hypergraph(at.artifact(self.graph))
        model = load(self.encoder, at.device, at.threads)

        def run(batch: pa.Table) -> pa.Table:
            words = batch["search_words"].to_pylist()
            vectors = self._encoded(words, graph, model)
            linked, found = [], []
            for named, packed in zip(words, batch["query_vector"].to_pylist(), strict=True):
                query = np.frombuffer(packed, np.float32)
                entities = self._linked(named, query, graph, vectors)
                linked.append(graph.entities["name"].take(pa.array(entities, pa.int64())))
                found.append(self._topics(query, entities, graph))
            lists = [each.to_pylist() for each in linked]
            columns = (pa.array(lists, pa.list_(pa.string())), pa.array(found, TOPICS))
            return with_columns(batch, pa.table(columns, schema=self.writes))

        return run

    def _encoded(
        self, words: Sequence[Sequence[str]], graph: Hypergraph, model: Any
    ) -> dict[str, Floats]:
        """The vectors of the terms whose nearest names are looked for, each encoded alone."""
        every = {word for each in words for word in each}
        new = sorted(w for w in every if self.nearest > 1 or key(w) not in graph.by_key)
        return {word: model.encode([word], "query")[0] for word in new}

    def _linked(
        self, words: Sequence[str], query: Floats, graph: Hypergraph, vectors: dict[str, Floats]
    ) -> list[int]:
        """The entities of the terms, each once, in order of the terms."""
        found: list[int] = []
        for word in words:
            own = graph.by_key.get(key(word))
            near = _nearest(vectors[word], graph, self.nearest) if word in vectors else []
            found += list(dict.fromkeys([*([] if own is None else [own]), *near]))[: self.nearest]
        if self.asked:
            found += _nearest(query, graph, 1)
        return list(dict.fromkeys(found))

    def _topics(
        self, query: Floats, entities: Sequence[int], graph: Hypergraph
    ) -> list[dict[str, Any]]:
        visits = self._visits(entities, graph)
        pool = np.flatnonzero(visits)
        order = np.lexsort((pool, -np.round(visits[pool], 9)))
        pool = pool[order][: _POOLED * self.topics]
        scores = visits[pool].astype(np.float64)
        if self.guide:
            likeness = graph.topic_vectors[pool].astype(np.float32) @ query
            scores *= np.exp(self.guide * np.round(likeness, _DECIMALS))
        best = np.lexsort((pool, -scores))[: self.topics]
        top = graph.topics.take(pa.array(pool[best[: self.shown]]))
        heads = graph.entities["name"].take(top["entity"]).to_pylist()
        told = zip(*(top[name].to_pylist() for name in ("text", "label")), heads, strict=True)
        texts = list(_once_each(told))
        texts += [""] * (len(best) - len(texts))
        return [
            {"topic": t, "text": told, "visits": visit, "score": score}
            for t, told, visit, score in zip(
                pool[best].tolist(), texts, visits[pool[best]].tolist(), scores[best].tolist(),
                strict=True,
            )
        ]  # fmt: skip

    def _visits(self, entities: Sequence[int], graph: Hypergraph) -> Floats:
        seeds = np.zeros(graph.entities.num_rows, np.float32)
        seeds[list(entities)] = 1.0
        seeds[graph.topics_of_entity == 0] = 0.0
        return expected_visits(graph.to_topic, graph.to_entity, seeds, self.steps)


def _once_each(told: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """What a model reads of topics, each a (text, label, entity).

    No head that tells no label, and "" for what stands under another head already, as by rules a
    sentence is the text of every entity that it names.
    """
    shown: set[str] = set()
    for text, label, entity in told:
        said = text.removeprefix(f"{entity}: {label}. ")
        yield "" if said in shown else said if label == REST else text
        shown.add(said)


def _nearest(vector: Floats, graph: Hypergraph, most: int) -> list[int]:
    """The entities with the nearest names."""
    if not len(graph.name_vectors):
        return []
    cosines = np.round(graph.name_vectors @ vector, _DECIMALS)
    order = np.lexsort((np.arange(len(cosines)), -cosines))[:most]
    return [int(each) for each in graph.named[order]]
