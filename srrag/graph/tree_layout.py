"""The layout of the knowledge tree: the parent of every node."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import non_null
from srrag.graph.facts import LOCAL_TYPES
from srrag.graph.tree_graph import TreeGraph
from srrag.llm.describe import Described

TOPIC_SCHEMA = non_null(*((name, pa.string()) for name in ("ref_id", "name", "text")))
NODE_SCHEMA = non_null(
    *((name, pa.string()) for name in ("kind", "parent_id", "ref_id", "name", "community_id"))
)
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

_MAX_KEYWORD_CHARS = 60


class Layout:
    """The parent of every node of the tree, computed on arrays."""

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
        place = places(graph.label, np.lexsort(ranks))
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

    def communities(self, texts: Described) -> pa.Table:
        """The communities, largest first: names and summaries as given, else the keywords."""
        graph = self.graph
        sizes = np.bincount(graph.label[graph.core], minlength=len(graph.community_ids))
        order = np.argsort(-sizes, kind="stable")
        rows = [
            (text.name, text.summary)
            if (text := texts.found[number])
            else (", ".join(self.keyword_names(number)), "")
            for number in order.tolist()
        ]
        names, summaries = zip(*rows, strict=True) if rows else ((), ())
        ids = graph.community_ids.take(pa.array(order))
        return pa.table([ids, names, summaries], schema=TOPIC_SCHEMA)

    def keywords(self) -> pa.Table:
        """The keywords of each community, the most central first."""
        communities = self.graph.community_ids.take(pa.array(self.graph.label[self._rows]))
        return self._nodes("keyword", self._rows, "4", communities)

    def entities(self) -> pa.Table:
        """All members but attributes, each under its keyword."""
        rows = np.flatnonzero(self.graph.core)
        return self._nodes("entity", rows, "3", self.graph.ids.take(pa.array(self.parent[rows])))

    def _nodes(self, kind: str, rows: Ints, level: str, parents: pa.Array) -> pa.Table:
        """Nodes of one kind; a parent's id stands behind its level, 4 for communities."""
        graph = self.graph
        columns = [
            pa.repeat(pa.scalar(kind), len(rows)),
            pc.binary_join_element_wise(level, parents, ":"),
            graph.ids.take(pa.array(rows)),
            graph.names.take(pa.array(rows)),
            graph.community_ids.take(pa.array(graph.label[rows])),
        ]
        return pa.table(columns, schema=NODE_SCHEMA)
