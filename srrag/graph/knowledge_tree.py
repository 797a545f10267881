"""The knowledge tree: communities, keywords, entities and relations, attributes (§4.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core.ids import content_id
from srrag.core.spec import place_field
from srrag.core.step import Build, Place, PreviousVersion
from srrag.graph.communities import GROUP
from srrag.graph.group_layers import read_groups, write_groups
from srrag.graph.layers import only_grew
from srrag.graph.tables import coding
from srrag.graph.tree_graph import TreeGraph
from srrag.graph.tree_layout import ROWS, Layout, with_node_ids
from srrag.llm.completion import Engine, Rules
from srrag.llm.describe import PROMPT, Described, Description, Topic, answers_of, describe
from srrag.llm.descriptions import DESCRIPTIONS, read_descriptions, write_descriptions

TOPICS = "topics.parquet"
BELOW = "tree.parquet"


@dataclass(frozen=True, kw_only=True)
class BuildKnowledgeTree(Build):
    """ENTITIES, EDGES and COMMUNITIES → TREE.

    The keywords of a community are its √n members with the most internal edges, at most
    `max_keywords`; documents, and names of more than 60 characters, come last. An entity hangs
    under its nearest keyword, a relation under the keyword of its head, an attribute under its
    entity.

    The engine names and summarises communities of at least `min_members` entities, with one prompt
    of at most `max_chars` of facts, or several rounds for more. The keywords name smaller
    communities and those without an answer, whose `model` is empty. The figures report the calls
    that an engine needs, even if the rules answer. `descriptions.parquet` stores each description
    with a hash of its facts.
    """

    version = 4

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
        """Raise ValueError for bounds that exclude everything."""
        for name, least in (("max_keywords", 1), ("min_members", 1), ("max_chars", 2_000)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}: it has to be {least} or more")

    def identity(self) -> dict[str, Any]:
        """The sha256 of the prompt file."""
        return {PROMPT.path.name: hashlib.sha256(PROMPT.path.read_bytes()).hexdigest()}

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the descriptions, the communities (`topics.parquet`) and all below them."""
        return self._made(inputs, out, at, {}, None)

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Write the same files; a community with unchanged facts keeps its description."""
        known = read_descriptions(former.folder / DESCRIPTIONS)
        grew = only_grew(inputs[self.entities][0])
        return self._made(inputs, out, at, known, former.folder / BELOW if grew else None)

    def _made(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        known: Mapping[str, Description],
        layered: Path | None,
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
        options = coding(ROWS, ("ref_id", "text"))
        topics = layout.communities(texts, self.engine.name)
        pq.write_table(topics, out / TOPICS, **options)
        levels = (layout.keywords(), layout.entities(), layout.relations(), layout.attributes())
        below = pa.concat_tables(levels)
        written = write_groups(below, GROUP, out / BELOW, layered, **options)
        return {
            "nodes": len(topics) + len(below),
            "communities": len(graph.community_ids),
            "keywords": int((layout.keyword >= 0).sum()),
            "communities_written": written,
            "kept": sum(key in known for key in keys.values()),
            "calls": texts.calls,
            "prompt_characters": texts.prompt_chars,
            "unanswered": texts.unanswered,
        }

    def _keys(self, graph: TreeGraph, layout: Layout) -> dict[int, str]:
        """Return the communities that are large enough to describe, with a hash of their facts."""
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
        """Describe the communities without a `known` description, many at a time."""
        answer = answers_of(at.client(self.engine), self.again)
        total = Described([None] * len(graph.community_ids))
        for number, value in known.items():
            total.found[number] = value
        chosen = [number for number, value in known.items() if value is None]
        for start in range(0, len(chosen), self.batch_communities):
            batch = chosen[start : start + self.batch_communities]
            # The rules' summary quotes facts, a model tells what which study found.
            facts = graph.facts if isinstance(self.engine, Rules) else graph.facts_by_study
            topics = [Topic(layout.keyword_names(c), facts(c)) for c in batch]
            told = [number for number, topic in enumerate(topics) if topic.facts]
            part = describe([topics[number] for number in told], answer, self.max_chars)
            for number, value in zip(told, part.found, strict=True):
                total.found[batch[number]] = value
            total.calls += part.calls
            total.unanswered += part.unanswered
            total.prompt_chars += part.prompt_chars
        return total


def read_topics(folder: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the communities of a tree, the largest first: stored rows of TREE."""
    return pq.read_table(folder / TOPICS, columns=columns)


def read_below(
    folder: Path, kinds: Sequence[str], columns: Sequence[str] | None = None
) -> pa.Table:
    """Read the stored rows of some kinds of nodes below the communities, in no order of parents.

    The nodes of one parent and kind are in their order.
    """
    return read_groups(folder / BELOW, GROUP, columns, [("kind", "in", list(kinds))])


def read_tree(folder: Path) -> pa.Table:
    """Read a whole tree: TREE, level by level, by parent and place."""
    order = [("level", "descending"), ("kind", "ascending"), ("parent_id", "ascending")]
    below = read_groups(folder / BELOW, GROUP)
    rows = pa.concat_tables([read_topics(folder), below])
    return with_node_ids(rows.sort_by([*order, ("rank", "ascending")]))
