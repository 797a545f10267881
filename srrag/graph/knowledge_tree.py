"""The knowledge tree: communities, keywords and entities (§4.3); edges stand in the graph."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.spec import content_id
from srrag.core.standing import COPY, HIDDEN
from srrag.core.step import IncrementalBuild, Place, PreviousVersion
from srrag.graph.facts import normalise
from srrag.graph.tree_graph import Layout, TreeGraph
from srrag.llm.completion import Engine, Rules
from srrag.llm.describe import (
    DESCRIPTIONS,
    PROMPT,
    Described,
    Description,
    Topic,
    answers_of,
    describe,
    read_descriptions,
    write_descriptions,
)
from srrag.storage.manifest import check_part
from srrag.storage.mirror import opened

TOPICS = "topics.parquet"
BELOW = "tree.parquet"
MAX_KEYWORDS, MAX_CHARS, BATCH_COMMUNITIES = 8, 12_000, 256
MAX_RESULTS = 2
"""Results that one study tells of an outcome, such as those at two times."""
_RESULT = [
    "doc_id", "kind", "interventions", "comparators", "outcome", "times", "people", "direction",
    "effect", "interval", "p", "reject",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BuildKnowledgeTree(IncrementalBuild):
    """ENTITIES, EDGES and COMMUNITIES → the tree: names and summaries of communities, keywords.

    The keywords of a community are its √n members with the most internal edges, at most
    MAX_KEYWORDS; documents, times, arms and names of more than 60 characters come last. An entity
    hangs under its nearest keyword. Relations and attributes, the lower levels, are the edges.

    The engine names and summarises communities of at least `min_members` entities, with one prompt
    of at most MAX_CHARS of facts, or several rounds for more. The keywords name smaller
    communities and those without an answer, whose `text` is empty. The figures report the calls
    that an engine needs, even if the rules answer. `descriptions.parquet` stores each description
    with a hash of its facts.
    """

    version = 8

    entities: str = "entities"
    findings: str = ""
    """The stage of FINDINGS, whose results a model reads beside the facts; "" for none."""
    communities: str = "communities"
    units: str = "units"
    standing: str = ""
    """The stage of the documents' standing, whose copies and retracted papers tell nothing; "" for
    none."""
    min_members: int = 3
    engine: Engine = field(default_factory=Rules)
    again: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for a bound that means nothing."""
        if self.min_members < 1:
            raise ValueError(f"min_members is {self.min_members}: it has to be 1 or more")

    def identity(self) -> dict[str, Any]:
        """The sha256 of the prompt file."""
        return {PROMPT.path.name: hashlib.sha256(PROMPT.path.read_bytes()).hexdigest()}

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write the descriptions, the communities (`topics.parquet`) and all below them.

        A community with unchanged facts keeps its description.
        """
        known = read_descriptions(former.folder / DESCRIPTIONS) if former else {}
        (folder,), (groups,), (units,) = (
            inputs[name] for name in (self.entities, self.communities, self.units)
        )
        silent = read_silent(inputs[self.standing] if self.standing else ())
        graph = TreeGraph.read(folder, groups, units, silent)
        layout = Layout(graph, MAX_KEYWORDS)
        # The rules' summary quotes facts, a model tells what which study found.
        facts: Callable[[int], list[str]] = graph.facts
        if not isinstance(self.engine, Rules):
            results = read_results(inputs[self.findings] if self.findings else ())
            facts = partial(graph.facts_by_study, results=results)
        keys = {c: content_id(*layout.keyword_names(c), *facts(c)) for c in self._described(graph)}
        before = {c: known.get(key) for c, key in keys.items()}
        texts = self._describe(facts, layout, at, before)
        found = {key: value for c, key in keys.items() if (value := texts.found[c]) is not None}
        write_descriptions(out / DESCRIPTIONS, found)
        topics = layout.communities(texts)
        pq.write_table(topics, out / TOPICS, compression="zstd")
        below = pa.concat_tables([layout.keywords(), layout.entities()])
        pq.write_table(below, out / BELOW, compression="zstd")
        return {
            "nodes": len(topics) + len(below),
            "communities": len(graph.community_ids),
            "keywords": int((layout.keyword >= 0).sum()),
            "kept": sum(key in known for key in keys.values()),
            "calls": texts.calls,
            "prompt_characters": texts.prompt_chars,
            "unanswered": texts.unanswered,
        }

    def _described(self, graph: TreeGraph) -> list[int]:
        """The communities that are large enough to describe."""
        sizes = np.bincount(graph.label[graph.core], minlength=len(graph.community_ids))
        found: list[int] = np.flatnonzero(sizes >= self.min_members).tolist()
        return found

    def _describe(
        self,
        facts: Callable[[int], list[str]],
        layout: Layout,
        at: Place,
        known: Mapping[int, Description | None],
    ) -> Described:
        """Describe the communities without a `known` description, many at a time."""
        answer = answers_of(at.client(self.engine), self.again)
        total = Described([None] * len(layout.graph.community_ids))
        for number, value in known.items():
            total.found[number] = value
        chosen = [number for number, value in known.items() if value is None]
        for start in range(0, len(chosen), BATCH_COMMUNITIES):
            batch = chosen[start : start + BATCH_COMMUNITIES]
            topics = [Topic(layout.keyword_names(c), facts(c)) for c in batch]
            told = [number for number, topic in enumerate(topics) if topic.facts]
            part = describe([topics[number] for number in told], answer, MAX_CHARS)
            for number, value in zip(told, part.found, strict=True):
                total.found[batch[number]] = value
            total.calls += part.calls
            total.unanswered += part.unanswered
            total.prompt_chars += part.prompt_chars
        return total


def read_results(paths: Sequence[Path]) -> dict[tuple[str, str, str], str]:
    """What documents found, with sizes, by document and the names of intervention and outcome.

    Of interventions together each has the result, which names the others. A document that found
    several directions has one result of each at least.
    """
    found: defaultdict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for path in paths:
        check_part(path)
        for row in pq.read_table(opened(path), columns=_RESULT).to_pylist():
            if row["reject"] is not None or row["kind"] != "found" or not row["direction"]:
                continue
            sizes = [row["effect"], row["interval"], row["p"] and f"p {row['p']}"]
            for name in row["interventions"]:
                others = [each for each in row["interventions"] if each != name]
                told = [
                    _after("with", others), _after("against", row["comparators"]),
                    _after("in", row["people"]), *row["times"], *sizes,
                ]  # fmt: skip
                key = row["doc_id"], normalise(name), normalise(row["outcome"])
                text = f"{row['direction']} {', '.join(filter(None, told))}".strip()
                found[key][text] = row["direction"]
    return {key: " / ".join(_each_direction(texts)) for key, texts in found.items()}


def _each_direction(results: Mapping[str, str]) -> list[str]:
    """The first result of each direction, and others up to MAX_RESULTS."""
    firsts = [*{way: text for text, way in reversed([*results.items()])}.values()]
    others = [text for text in results if text not in firsts]
    chosen = {*firsts, *others[: max(0, MAX_RESULTS - len(firsts))]}
    return [text for text in results if text in chosen]


def _after(word: str, names: Sequence[str]) -> str:
    """The names behind a word, "" without names."""
    return f"{word} {' and '.join(names)}" if names else ""


def read_silent(folders: Sequence[Path]) -> list[str]:
    """The documents that no answer cites: copies, retracted and deleted ones."""
    silent: list[str] = []
    for folder in folders:
        told = pq.read_table(folder / "standing.parquet", columns=["doc_id", "standing"])
        hidden = pc.is_in(told["standing"], value_set=pa.array([COPY, *HIDDEN]))
        silent += told["doc_id"].filter(hidden).to_pylist()
    return silent


def read_topics(folder: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the communities of a tree, the largest first: `ref_id`, `name` and `text`."""
    return pq.read_table(folder / TOPICS, columns=columns)


def read_below(
    folder: Path, kinds: Sequence[str], columns: Sequence[str] | None = None
) -> pa.Table:
    """Read the nodes of some kinds below the communities; keywords are in their order."""
    filters = [("kind", "in", list(kinds))]
    return pq.read_table(folder / BELOW, columns=columns, filters=filters, partitioning=None)
