"""The layout of the knowledge tree: the parent and place of every node, as rows of TREE."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import TREE
from srrag.graph.facts import LOCAL_TYPES
from srrag.graph.tree_graph import TreeGraph
from srrag.llm.describe import Described

_MAX_HOPS = 4


def degrees_within(label: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Number of edges of each node to other members of its community, int64 (n,)."""
    inside = (label[heads] == label[tails]) & (heads != tails)
    ends = np.concatenate([heads[inside], tails[inside]])
    found: np.ndarray = np.bincount(ends, minlength=len(label))
    return found


def places(group: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Position (from 0) of each row within its group, when sorted by `order`: int64 (n,)."""
    sorted_rows = order[np.argsort(group[order], kind="stable")]
    first = np.flatnonzero(np.diff(group[sorted_rows], prepend=-1))
    lengths = np.diff(np.append(first, len(group)))
    found = np.empty(len(group), dtype=np.int64)
    found[sorted_rows] = np.arange(len(group)) - np.repeat(first, lengths)
    return found


def nearest_keyword(
    label: np.ndarray, keyword: np.ndarray, heads: np.ndarray, tails: np.ndarray
) -> np.ndarray:
    """Position of the keyword to which each node of a community belongs, int64 (n,).

    `keyword` (n,) is the position of a keyword in its community, -1 for other nodes. A node belongs
    to the best keyword among its neighbours, else to the keyword of a neighbour, and so on for 4
    hops. Nodes that no keyword reaches belong to the first keyword.
    """
    inside = label[heads] == label[tails]
    ends = np.concatenate([heads[inside], tails[inside]])
    others = np.concatenate([tails[inside], heads[inside]])
    none = np.iinfo(np.int64).max
    found = np.where(keyword >= 0, keyword, none).astype(np.int64)
    for _ in range(_MAX_HOPS):
        reached = np.full(len(label), none)
        np.minimum.at(reached, ends, found[others])
        fresh = (found == none) & (reached < none)
        if not fresh.any():
            break
        found[fresh] = reached[fresh]
    return np.where(found == none, 0, found)


Ints = npt.NDArray[np.int64]

_LEVELS = {"community": 4, "keyword": 3, "entity": 2}
ROWS = pa.schema([*TREE.remove(0), pa.field("community_id", pa.string(), nullable=False)])
"""TREE as it is stored: with the community of each node, and without `node_id`, which follows."""
_MAX_KEYWORD_CHARS = 60


class Layout:
    """The parent and place of every node of the tree, computed on arrays."""

    def __init__(self, graph: TreeGraph, max_keywords: int) -> None:
        """Choose the keywords and assign one of them to every entity."""
        self.graph = graph
        heads, tails = graph.owner[graph.heads], graph.owner[graph.tails]
        related = ~graph.of_attribute
        heads, tails = heads[related], tails[related]
        degree = degrees_within(graph.label, heads, tails)
        # Rows are in the order of ids, so ties go by id.
        long = np.asarray(pc.utf8_length(graph.names)) > _MAX_KEYWORD_CHARS
        late = long | np.asarray(pc.is_in(graph.types, value_set=pa.array(LOCAL_TYPES)))
        ranks = (-graph.mentions, -degree, late, graph.is_document, ~graph.core)
        self.order = np.lexsort(ranks)
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
        """Return the names of a community's keywords, the most central first."""
        return tuple(self._keyword_names[self._first[community] : self._first[community + 1]])

    @cached_property
    def _keyword_names(self) -> list[str]:
        names: list[str] = self.graph.told.take(pa.array(self._rows)).to_pylist()
        return names

    def communities(self, texts: Described, model: str) -> pa.Table:
        """Build the top level, largest first: names and summaries as given, else the keywords."""
        graph = self.graph
        sizes = np.bincount(graph.label[graph.core], minlength=len(graph.community_ids))
        order = np.argsort(-sizes, kind="stable")
        found = [texts.found[number] for number in order.tolist()]
        named = [
            ", ".join(self.keyword_names(number)) if text is None else text.name
            for number, text in zip(order.tolist(), found, strict=True)
        ]
        return self._table(
            "community", graph.community_ids.take(pa.array(order)), _repeat("", len(order)),
            np.arange(len(order)), pa.array(named, pa.string()),
            order,
            pa.array([text.summary if text else "" for text in found], pa.string()),
            pa.array([model if text else "" for text in found], pa.string()),
        )  # fmt: skip

    def keywords(self) -> pa.Table:
        """Build the keyword level: the most central members."""
        graph, rows = self.graph, self._rows
        parents = _prefixed(4, graph.community_ids.take(pa.array(graph.label[rows])))
        ids, names = (column.take(pa.array(rows)) for column in (graph.ids, graph.names))
        return self._table("keyword", ids, parents, self.keyword[rows], names, graph.label[rows])

    def entities(self) -> pa.Table:
        """Build the entities: all members except attributes, each under its keyword."""
        central = np.empty(len(self.order), np.int64)
        central[self.order] = np.arange(len(self.order))
        rows = np.flatnonzero(self.graph.core)
        rows = rows[np.lexsort((central[rows], self.parent[rows]))]
        place = places(self.parent[rows], np.arange(len(rows)))
        parents = _prefixed(3, self.graph.ids.take(pa.array(self.parent[rows])))
        ids, names = (column.take(pa.array(rows)) for column in (self.graph.ids, self.graph.names))
        return self._table("entity", ids, parents, place, names, self.graph.label[rows])

    def _table(
        self,
        kind: str,
        refs: Any,
        parents: Any,
        place: Ints,
        names: Any,
        communities: Ints,
        texts: Any = None,
        models: Any = None,
    ) -> pa.Table:
        """Build the rows of one kind, sorted by parent and place."""
        empty = _repeat("", len(refs))
        return pa.table(
            {
                "level": pa.array(np.full(len(refs), _LEVELS[kind], np.int32)),
                "kind": _repeat(kind, len(refs)),
                "parent_id": parents,
                "ref_id": refs,
                "rank": pa.array(place.astype(np.int32)),
                "name": names,
                "text": empty if texts is None else texts,
                "model": empty if models is None else models,
                "community_id": self.graph.community_ids.take(pa.array(communities)),
            },
            schema=ROWS,
        )


def _prefixed(level: int, ids: pa.Array) -> pa.Array:
    """Return the ids of tree nodes: the level and the id of the node's content."""
    return pc.binary_join_element_wise(pa.scalar(str(level)), ids, ":")


def _repeat(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), rows)
