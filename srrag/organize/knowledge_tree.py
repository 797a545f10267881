"""The knowledge tree: communities, keywords, entities and relations, attributes (§4.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.algo.centrality import degrees_within, nearest_keyword, places
from srrag.ask import ask
from srrag.completion import Completion, Engine, Prompt, Rules
from srrag.ids import content_id
from srrag.organize.describe import PROMPT, Described, Description, Topic, by_rules, describe
from srrag.organize.descriptions import DESCRIPTIONS, read_descriptions, write_descriptions
from srrag.organize.tree_graph import TreeGraph
from srrag.schema import TREE
from srrag.spec import place_field
from srrag.step import Build, Former, Place

Ints = npt.NDArray[np.int64]

_LEVELS = {"community": 4, "keyword": 3, "entity": 2, "relation": 2, "attribute": 1}
_MAX_KEYWORD_CHARS = 60


@dataclass(frozen=True, kw_only=True)
class BuildKnowledgeTree(Build):
    """ENTITIES, EDGES and COMMUNITIES → TREE.

    Keywords are the √n members of a community with the most edges inside it, `max_keywords` at
    most; studies themselves, and names of more than 60 characters, come last. An entity hangs under
    the keyword nearest to it, a relation under that of its head, an attribute under its entity.

    Communities of `min_members` entities are named and summarised by the engine, one prompt each
    of at most `max_chars` of facts, or several rounds where they are more; a smaller one bears its
    keywords as its name. So is one without an answer, whose `model` is empty. The figures tell the
    calls that an engine takes, also where the rules answer. `descriptions.parquet` holds each
    description beside a hash of what it was made of.
    """

    version = 2

    entities: str = "entities"
    communities: str = "communities"
    units: str = "units"
    max_keywords: int = 8
    min_members: int = 3
    max_chars: int = 12_000
    engine: Engine = field(default_factory=Rules)
    again: int = 1
    batch_communities: int = place_field(256)

    def __post_init__(self) -> None:
        """Raise ValueError for bounds that leave nothing."""
        for name, least in (("max_keywords", 1), ("min_members", 1), ("max_chars", 2_000)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}: it has to be {least} or more")

    def identity(self) -> dict[str, Any]:
        """The sha256 of the prompt file."""
        return {PROMPT.path.name: hashlib.sha256(PROMPT.path.read_bytes()).hexdigest()}

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `tree.parquet`, level by level from the communities down, and the descriptions."""
        return self._made(inputs, out, at, {})

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: Former
    ) -> dict[str, float | int | str]:
        """Write the same files; a community with the facts of before keeps its description."""
        return self._made(inputs, out, at, read_descriptions(former.folder / DESCRIPTIONS))

    def _made(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        known: Mapping[str, Description],
    ) -> dict[str, float | int | str]:
        (folder,), (groups,), (units,) = (
            inputs[name] for name in (self.entities, self.communities, self.units)
        )
        graph = TreeGraph.read(folder, groups, units)
        layout = Layout(graph, self.max_keywords)
        keys = self._keys(graph, layout)
        texts = self._describe(graph, layout, at, {c: known.get(key) for c, key in keys.items()})
        found = {key: value for c, key in keys.items() if (value := texts.found[c]) is not None}
        write_descriptions(out / DESCRIPTIONS, found)
        rows = 0
        with pq.ParquetWriter(out / "tree.parquet", TREE, compression="zstd") as writer:
            for table in (
                layout.communities(texts, self.engine.name),
                layout.keywords(),
                layout.entities(),
                layout.relations(),
                layout.attributes(),
            ):
                writer.write_table(table)
                rows += table.num_rows
        return {
            "nodes": rows,
            "communities": len(graph.community_ids),
            "keywords": int((layout.keyword >= 0).sum()),
            "kept": sum(key in known for key in keys.values()),
            "calls": texts.calls,
            "prompt_characters": texts.prompt_chars,
            "unanswered": texts.unanswered,
        }

    def _keys(self, graph: TreeGraph, layout: Layout) -> dict[int, str]:
        """The communities that are large enough to be described: a hash of what is told of each."""
        sizes = np.bincount(graph.label[graph.core], minlength=len(graph.community_ids))
        return {
            c: content_id(*layout.keyword_names(c), graph.facts_hash(c))
            for c in np.flatnonzero(sizes >= self.min_members).tolist()
        }

    def _describe(
        self,
        graph: TreeGraph,
        layout: Layout,
        at: Place,
        known: Mapping[int, Description | None],
    ) -> Described:
        """Describe the communities of which nothing is `known`, so many at a time."""
        answer = self._answerer(at)
        total = Described([None] * len(graph.community_ids))
        for number, value in known.items():
            total.found[number] = value
        chosen = [number for number, value in known.items() if value is None]
        for start in range(0, len(chosen), self.batch_communities):
            batch = chosen[start : start + self.batch_communities]
            topics = [Topic(layout.keyword_names(c), graph.facts(c)) for c in batch]
            told = [number for number, topic in enumerate(topics) if topic.facts]
            part = describe([topics[number] for number in told], answer, self.max_chars)
            for number, value in zip(told, part.found, strict=True):
                total.found[batch[number]] = value
            total.calls += part.calls
            total.unanswered += part.unanswered
            total.prompt_chars += part.prompt_chars
        return total

    def _answerer(self, at: Place) -> Any:
        client = at.client(self.engine)
        if client is None:
            return by_rules

        def answer(topics: Sequence[Topic], prompts: Sequence[Prompt]) -> list[Completion]:
            return ask(client, prompts, lambda prompt, value: None, self.again)

        return answer


class Layout:
    """Where every node of the tree hangs: parents and places, computed on arrays."""

    def __init__(self, graph: TreeGraph, max_keywords: int) -> None:
        """Choose the keywords and give every entity one of them."""
        self.graph = graph
        heads, tails = graph.owner[graph.heads], graph.owner[graph.tails]
        related = ~graph.of_attribute
        heads, tails = heads[related], tails[related]
        degree = degrees_within(graph.label, heads, tails)
        # Rows are in the order of ids, so that equals go by id.
        long = np.asarray(pc.utf8_length(graph.names)) > _MAX_KEYWORD_CHARS
        self.order = np.lexsort((-graph.mentions, -degree, long, graph.is_document, ~graph.core))
        place = places(graph.label, self.order)
        able = graph.core & ~graph.is_document
        count = np.bincount(graph.label[able], minlength=len(graph.community_ids))
        quota = np.clip(np.ceil(np.sqrt(count)), 1, max_keywords).astype(np.int64)
        self.keyword: Ints = np.where(place < quota[graph.label], place, -1)
        nearest = nearest_keyword(graph.label, self.keyword, heads, tails)
        rows = np.flatnonzero(self.keyword >= 0)
        first = np.zeros(len(quota) + 1, np.int64)
        np.cumsum(np.bincount(graph.label[rows], minlength=len(quota)), out=first[1:])
        rows = rows[np.lexsort((self.keyword[rows], graph.label[rows]))]
        self._first, self._rows = first, rows
        self.parent: Ints = rows[first[graph.label] + nearest]

    def keyword_names(self, community: int) -> tuple[str, ...]:
        """The names of a community's keywords, the most central first."""
        rows = self._rows[self._first[community] : self._first[community + 1]]
        return tuple(self.graph.names.take(pa.array(rows)).to_pylist())

    def communities(self, texts: Described, model: str) -> pa.Table:
        """The top: names and summaries as given, else the keywords as name."""
        graph = self.graph
        sizes = np.bincount(graph.label[graph.core], minlength=len(graph.community_ids))
        place = places(np.zeros(len(sizes), np.int64), np.argsort(-sizes, kind="stable"))
        named = [
            ", ".join(self.keyword_names(number)) if text is None else text.name
            for number, text in enumerate(texts.found)
        ]
        return _table(
            "community", graph.community_ids, pa.array([""] * len(sizes), pa.string()), place,
            pa.array(named, pa.string()),
            pa.array([text.summary if text else "" for text in texts.found], pa.string()),
            pa.array([model if text else "" for text in texts.found], pa.string()),
        )  # fmt: skip

    def keywords(self) -> pa.Table:
        """The most central members."""
        graph, rows = self.graph, self._rows
        parents = graph.community_ids.take(pa.array(graph.label[rows]))
        ids, names = (column.take(pa.array(rows)) for column in (graph.ids, graph.names))
        return _table("keyword", ids, _prefixed(4, parents), self.keyword[rows], names)

    def entities(self) -> pa.Table:
        """All members but attributes, each under its keyword."""
        rows = np.flatnonzero(self.graph.core)
        return self._under("entity", rows, self.parent[rows], 3)

    def attributes(self) -> pa.Table:
        """Attributes under their entities; the text says which attribute."""
        graph = self.graph
        rows = np.flatnonzero(~graph.core)
        types = pc.replace_substring(graph.types.take(pa.array(rows)), "_", " ")
        names = graph.names.take(pa.array(rows))
        texts = pc.binary_join_element_wise(types, names, ": ")
        return self._under("attribute", rows, graph.owner[rows], 2, texts)

    def relations(self) -> pa.Table:
        """Relations under the keyword of their head, written out."""
        graph = self.graph
        edges = np.flatnonzero(~graph.of_attribute)
        parent = self.parent[graph.owner[graph.heads[edges]]]
        order = np.argsort(-graph.edge_mentions[edges], kind="stable")
        texts = pc.binary_join_element_wise(
            graph.names.take(pa.array(graph.heads[edges])),
            pc.replace_substring(graph.relations.take(pa.array(edges)), "_", " "),
            graph.names.take(pa.array(graph.tails[edges])),
            " ",
        )
        return _table(
            "relation",
            graph.edge_ids.take(pa.array(edges)),
            _prefixed(3, graph.ids.take(pa.array(parent))),
            places(parent, order),
            graph.relations.take(pa.array(edges)),
            texts,
        )

    def _under(
        self, kind: str, rows: Ints, parent: Ints, level: int, texts: Any = None
    ) -> pa.Table:
        central = np.empty(len(self.order), np.int64)
        central[self.order] = np.arange(len(self.order))
        ids, names = (c.take(pa.array(rows)) for c in (self.graph.ids, self.graph.names))
        parents = _prefixed(level, self.graph.ids.take(pa.array(parent)))
        place = places(parent, np.argsort(central[rows], kind="stable"))
        return _table(kind, ids, parents, place, names, texts)


def _prefixed(level: int, ids: pa.Array) -> pa.Array:
    """Ids of tree nodes: the level and what the node stands for."""
    return pc.binary_join_element_wise(pa.scalar(str(level)), ids, ":")


def _table(
    kind: str,
    refs: Any,
    parents: Any,
    place: Ints,
    names: Any,
    texts: Any = None,
    models: Any = None,
) -> pa.Table:
    """Rows of one kind, sorted by parent and place."""
    empty = pa.array([""] * len(refs), pa.string())
    level = _LEVELS[kind]
    table = pa.table(
        {
            "node_id": _prefixed(level, refs),
            "level": pa.array(np.full(len(refs), level, np.int32)),
            "kind": pa.array([kind] * len(refs), pa.string()),
            "parent_id": parents,
            "ref_id": refs,
            "rank": pa.array(place.astype(np.int32)),
            "name": names,
            "text": empty if texts is None else texts,
            "model": empty if models is None else models,
        },
        schema=TREE,
    )
    return table.sort_by([("parent_id", "ascending"), ("rank", "ascending")])
