"""Predict the prompts that describe communities, from facts alone, before the graph exists.

The number of communities is known only after detection. The prediction is a rate on the high side
of measurements: graphs of 1,388 to 357,844 entities took 9 to 44 calls per 1,000 entities, the
large ones the fewest. The facts are those of the later prompts, each once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pyarrow as pa

from srrag.graph.facts import normalise
from srrag.graph.tree_graph import A_STUDY
from srrag.llm.completion import Prompt
from srrag.llm.describe import Topic, by_rules, render, split

CALLS_PER_ENTITY = 0.045
"""Calls per entity of any kind, including attributes."""
Key = tuple[str, ...]
_KEYWORDS = 6
_DOCUMENT = "Document"
_COLUMNS = ("kind", "head", "head_type", "relation", "tail", "tail_type")


def foretold(triples: Iterable[pa.Table], max_chars: int) -> tuple[list[Prompt], list[str]]:
    """Return prompts over the facts of TRIPLES, and the rules' answers to them.

    Facts are taken in order. Each prompt holds as many as the rate implies, at most `max_chars`.
    """
    entities: set[Key] = set()
    facts: dict[tuple[Key, ...], str] = {}
    for table in triples:
        for ends, relation, fact in _facts(table):
            entities.update(ends)
            if fact:
                facts.setdefault((*ends, (relation,)), fact)
    told = list(facts.values())
    calls = min(len(told), math.ceil(CALLS_PER_ENTITY * len(entities)))
    bounds = [len(told) * number // calls for number in range(calls + 1)] if calls else []
    topics = [
        Topic(tuple(fact.split()[0] for fact in portion[:_KEYWORDS]), portion)
        for start, end in pairwise(bounds)
        for portion in split(told[start:end], max_chars)
    ]
    prompts = [render(topic, row) for row, topic in enumerate(topics)]
    return prompts, [answer.text for answer in by_rules(topics, prompts)]


def _facts(table: pa.Table) -> Iterator[tuple[list[Key], str, str]]:
    """Yield the entity keys of each fact, its relation, and its text in a prompt.

    The text of a lone entity is empty.
    """
    columns = (table[name].to_pylist() for name in _COLUMNS)
    for kind, head, head_type, relation, tail, tail_type in zip(*columns, strict=True):
        owner = (head_type, normalise(head))
        if kind == "entity":
            yield [owner], "", ""
            continue
        # A value belongs to its entity: the same value of another entity is another node.
        end = (tail_type, normalise(tail)) if kind == "relation" else (*owner, tail_type, tail)
        shown = A_STUDY if head_type == _DOCUMENT else head
        between = relation.replace("_", " ") if kind == "relation" else f": {tail_type}"
        yield [owner, end], relation, f"{shown} {between} {tail}"
