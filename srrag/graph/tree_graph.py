"""The graph of the knowledge tree (entities by id, owners, communities, facts) and its layout: the
parent of every node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import non_null
from srrag.core.units import map_tables
from srrag.graph.communities import read_communities
from srrag.graph.entities import read_rows
from srrag.graph.facts import LOCAL_TYPES, normalise
from srrag.graph.nodes import in_order, numbered, owners, rows_of_ends
from srrag.llm.describe import Described

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_DOCUMENT = "Document"
_UNTITLED = "untitled document"
A_STUDY = "A study"
"""The word for a document in the facts and keywords of a description."""
MAX_STUDIES = 3
_QUIET = (*LOCAL_TYPES, "other_name")
"""Types of tails that tell nothing of a group."""
Results = Mapping[tuple[str, str, str], str]
"""What a document found, by its id and the normalised names of intervention and outcome."""
_TIME = ["timepoint_value", "timepoint_unit"]
_MAX_NAME_CHARS = 200


@dataclass(frozen=True)
class TreeGraph:
    """Entities in the order of their ids; edges as pairs of rows; communities by number.

    `core` marks entities other than attributes. `owner` is the row of an attribute's entity, and a
    core entity's own row. `of_attribute` marks the edges to attributes. Documents have their titles
    as names, but descriptions call each A_STUDY: no title leads to a community's windows.
    """

    ids: pa.Array
    names: pa.Array
    types: pa.Array
    mentions: Ints
    is_document: Bools
    core: Bools
    owner: Ints
    label: Ints
    community_ids: pa.Array
    heads: Ints
    tails: Ints
    relations: pa.Array
    edge_mentions: Ints
    of_attribute: Bools
    edge_documents: pa.ListArray
    documents: pa.Table

    @classmethod
    def read(cls, folder: Path, groups: Path, units: Path, silent: Sequence[str] = ()) -> TreeGraph:
        """Read the tables; raises ValueError for an entity without a community.

        The documents in `silent` state nothing.
        """
        columns = ["entity_id", "name", "type"]
        nodes = in_order(_counted(folder / "entities.parquet", columns), "entity_id")
        columns = ["edge_id", "kind", "head_id", "relation", "tail_id"]
        edges = in_order(_counted(folder / "edges.parquet", columns, "doc_id"), "edge_id")
        nodes, edges = nodes.combine_chunks(), edges.combine_chunks()
        ids = nodes["entity_id"].combine_chunks()
        members = read_communities(groups)
        mine = members["community_id"]
        if not members["entity_id"].equals(pa.chunked_array([ids])):
            mine = mine.take(pc.index_in(ids, value_set=members["entity_id"]))
        if mine.null_count:
            raise ValueError(f"{groups}: an entity is in no community; run the build again")
        label, communities = numbered(mine)
        heads, tails = rows_of_ends(edges, ids)
        of_attribute = np.asarray(pc.equal(edges["kind"], "attribute"))
        owner = owners(heads[of_attribute], tails[of_attribute], len(ids))
        return cls(
            ids=ids,
            names=_shown_names(nodes, units),
            types=nodes["type"].combine_chunks(),
            mentions=_numbers(nodes["count"]),
            is_document=np.asarray(pc.equal(nodes["type"], _DOCUMENT)),
            core=owner == np.arange(len(ids)),
            owner=owner,
            label=label[owner],
            community_ids=pa.array(communities, pa.string()),
            heads=heads,
            tails=tails,
            relations=edges["relation"].combine_chunks(),
            edge_mentions=_numbers(edges["count"]),
            of_attribute=of_attribute,
            edge_documents=_speaking(edges["doc_id"].combine_chunks(), silent),
            documents=map_tables(units)[1].select(["doc_id", "pmid", "grade", "year"]),
        )

    def facts(self, community: int) -> list[str]:
        """The facts of a community's entities, each once: relations first, most mentioned first.

        Numbers and units of times are no facts of their own, and what silent documents alone state
        is none.
        """
        return [fact for fact, _ in self._told_facts(community)]

    def facts_by_study(self, community: int, results: Results) -> list[str]:
        """The facts, each with up to MAX_STUDIES studies that state it, their grades and years.

        Documents of one PMID are one study, which tells the first of their `results`. Facts between
        entities come first. Times, arms and other names are left out, and that a document has what
        another fact names.
        """
        numbers: dict[str, int] = {}
        told = []
        for fact, edges, (head, tail) in self._by_ends(self._telling(self._told_facts(community))):
            studies: dict[str, list[str]] = {}
            for edge in edges:
                for doc in self.edge_documents[edge].as_py():
                    studies.setdefault(self._study.get(doc, doc), []).append(doc)
            shown = []
            for study, docs in list(studies.items())[:MAX_STUDIES]:
                number = numbers.setdefault(study, len(numbers) + 1)
                found = next(filter(None, (results.get((doc, head, tail), "") for doc in docs)), "")
                result = f": {found}" if found else ""
                shown.append(f"study {number}{self._labels.get(docs[0], '')}{result}")
            if len(studies) > MAX_STUDIES:
                shown.append(f"{len(studies) - MAX_STUDIES} more")
            told.append(f"{fact} [{'; '.join(shown)}]" if shown else fact)
        return told

    def _by_ends(
        self, facts: list[tuple[str, list[int]]]
    ) -> Iterator[tuple[str, list[int], tuple[str, str]]]:
        """Facts with the same two ends as one, and the names of these: "improves / worsens"."""
        pairs: dict[tuple[str, str], list[tuple[str, list[int]]]] = {}
        for fact, edges in facts:
            ends = (self.names[int(side[edges[0]])].as_py() for side in (self.heads, self.tails))
            head, tail = ends
            pairs.setdefault((head, tail), []).append((fact, edges))
        for (head, tail), told in pairs.items():
            verbs = [fact.removeprefix(head).removesuffix(tail).strip() for fact, _ in told]
            fact = told[0][0] if len(told) == 1 else f"{head} {' / '.join(verbs)} {tail}"
            edges = [edge for _, some in told for edge in some]
            yield fact, edges, (normalise(head), normalise(tail))

    def _telling(self, facts: list[tuple[str, list[int]]]) -> list[tuple[str, list[int]]]:
        """The facts that say more than that a document has something, if there are any."""
        rows = [(int(self.heads[edges[0]]), int(self.tails[edges[0]])) for _, edges in facts]
        named = {end for ends in rows if not self.is_document[ends[0]] for end in ends}
        kept: tuple[list[tuple[str, list[int]]], ...] = ([], [])
        for each, (head, tail) in zip(facts, rows, strict=True):
            own = bool(self.is_document[head])
            kinds = self.types[head].as_py(), self.types[tail].as_py()
            if kinds[0] != "Timepoint" and kinds[1] not in _QUIET and not (own and tail in named):
                kept[own].append(each)
        return [*kept[0], *kept[1]] or facts

    def _told_facts(self, community: int) -> list[tuple[str, list[int]]]:
        """The facts, each with the rows of its edges."""
        order, first = self._by_community
        begin, end = first[community : community + 2].tolist()
        edges = order[begin:end].tolist()
        told: dict[str, list[int]] = {}
        for edge, fact in zip(
            edges, self._facts.slice(begin, end - begin).to_pylist(), strict=True
        ):
            if not self._untold[edge]:
                told.setdefault(fact, []).append(edge)
        return list(told.items())

    @cached_property
    def _untold(self) -> Bools:
        """The edges to the number and the unit of a time, and those that no document states."""
        tails = self.types.take(pa.array(self.tails))
        timed: Bools = np.asarray(pc.is_in(tails, value_set=pa.array(_TIME)))
        unstated: Bools = np.asarray(pc.equal(pc.list_value_length(self.edge_documents), 0))
        return np.logical_or(np.logical_and(self.of_attribute, timed), unstated)

    @cached_property
    def _labels(self) -> dict[str, str]:
        """Grade and year of each document, as far as they are known."""
        return {
            row["doc_id"]: "".join(
                [
                    f", grade {row['grade']}" if row["grade"] else "",
                    f", {row['year']}" if row["year"] else "",
                ]
            )
            for row in self.documents.to_pylist()
        }

    @cached_property
    def _study(self) -> dict[str, str]:
        """The study of each document: its PMID, else its own id."""
        return {row["doc_id"]: row["pmid"] or row["doc_id"] for row in self.documents.to_pylist()}

    @cached_property
    def told(self) -> pa.Array:
        """The names as descriptions show them."""
        return pc.if_else(pa.array(self.is_document), A_STUDY, self.names)

    def _between(self, edges: Ints) -> pa.Array:
        """The text between the two names of each edge's fact, with its blanks."""
        relations, kinds = map(pc.dictionary_encode, (self.relations, self.types))
        texts = [f" {text} " for text in relations.dictionary.to_pylist()]
        numbers = _numbers(kinds.indices)[self.tails] + len(texts)
        texts += [f": {text} " for text in kinds.dictionary.to_pylist()]
        chosen = np.where(self.of_attribute, numbers, _numbers(relations.indices))[edges]
        distinct = pa.array([text.replace("_", " ") for text in texts], pa.large_string())
        return distinct.take(pa.array(chosen))

    @cached_property
    def _facts(self) -> pa.Array:
        """The facts of all communities as texts, by community."""
        order, _ = self._by_community
        shown = pc.utf8_slice_codeunits(self.told, 0, _MAX_NAME_CHARS).cast(pa.large_string())
        heads, tails = (shown.take(pa.array(rows[order])) for rows in (self.heads, self.tails))
        between = self._between(order)
        return pc.binary_join_element_wise(heads, between, tails, pa.scalar("", between.type))

    @cached_property
    def _by_community(self) -> tuple[Ints, Ints]:
        """The edges, sorted by their head's community, and where each community begins."""
        label = self.label[self.heads]
        order = np.lexsort((-self.edge_mentions, self.of_attribute, label))
        first = np.searchsorted(label[order], np.arange(len(self.community_ids) + 1))
        return order, first.astype(np.int64)


def _counted(path: Path, columns: list[str], field: str = "char_start") -> pa.Table:
    """Read these columns; `count` is how many mentions there are, `doc_id`, if asked, of whom."""
    table = read_rows(path, [*columns, f"mentions.list.element.{field}"])
    mentions = table["mentions"].combine_chunks()
    table = table.select(columns).append_column("count", pc.list_value_length(mentions))
    if field != "doc_id":
        return table
    stated = pc.struct_field(mentions.values, field)
    return table.append_column(field, pa.ListArray.from_arrays(mentions.offsets, stated))


def _speaking(stated: pa.ListArray, silent: Sequence[str]) -> pa.ListArray:
    """The documents of each edge without those that are silent."""
    documents, edge = stated.flatten(), _numbers(pc.list_parent_indices(stated))
    kept = pc.invert(pc.is_in(documents, value_set=pa.array(silent, pa.string())))
    sizes = np.bincount(edge[np.asarray(kept)], minlength=len(stated))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), documents.filter(kept))


def _shown_names(nodes: pa.Table, units: Path) -> pa.Array:
    """Return the names; a document's name is its title."""
    documents = map_tables(units)[1]
    names, types = (nodes[name].combine_chunks() for name in ("name", "type"))
    is_document = pc.equal(types, _DOCUMENT)
    known = documents["doc_id"].combine_chunks()
    found = pc.index_in(names.filter(is_document), value_set=known)
    titles = pc.fill_null(documents["title"].combine_chunks().take(found), "")
    titles = pc.if_else(pc.equal(titles, ""), _UNTITLED, titles)
    return pc.replace_with_mask(names, is_document, titles)


def _numbers(column: Any) -> Ints:
    return np.asarray(column).astype(np.int64)


TOPIC_SCHEMA = non_null("ref_id name text")
NODE_SCHEMA = non_null("kind parent_id ref_id name community_id")
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
