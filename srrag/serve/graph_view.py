"""The evidence of a graph as people explore it: concepts by name, and the walk from population to
intervention to outcome through some studies.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, Field

from srrag.export.graph import DOCUMENT_TYPE, Graph, open_graph
from srrag.export.select import folded, nearest, with_quotes
from srrag.graph.facts import entity_id
from srrag.reading.concepts import read_abbreviations
from srrag.reading.vocabulary import tokens_of
from srrag.serve.concepts_shown import BAR, COLUMNS, Spelling, columns_of, passes
from srrag.storage.store import Store

MAX_STUDIES = 40
"""Studies of a walk, beyond which its lines are not told apart."""
MAX_COLUMN = 12
"""Concepts of a column."""
_CANDIDATES = 400
_SENTENCES = 120
_RANK = {grade: place for place, grade in enumerate("ABCDE")}

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Row = dict[str, Any]


class Quote(BaseModel):
    """A sentence of a study that names a concept, or says a relation."""

    document: int = Field(description="its place in `documents`")
    quote: list[str] = Field(description="before, the words themselves, after")
    section: str


class Concept(BaseModel):
    """One concept by its best name, with its other spellings."""

    id: str = Field(description="of its most used entity, for `entity`")
    name: str
    aliases: list[str]
    type: str
    column: int = Field(description="0 population or condition, 1 intervention, 2 outcome")
    asked: bool = Field(description="the question names it")
    studies: list[int] = Field(description="places in `documents`, best grade first")
    mentions: list[Quote]


class Study(BaseModel):
    """A study of a walk or a drawing."""

    doc_id: str
    title: str
    source_id: str
    grade: str
    year: int
    pmid: str
    standing: str = ""


class Walk(BaseModel):
    """Concepts of some studies; two are linked by the studies that they share."""

    title: str
    bar: str = Field(description="which entities are shown, in words")
    total: int = Field(description="studies that could be shown, of which the first are")
    left_out: list[int] = Field(description="concepts of each column that are not shown")
    concepts: list[Concept]
    documents: list[Study]


@dataclass
class _Group:
    """The entities of one concept, and the studies that name them."""

    rows: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    @property
    def studies(self) -> set[int]:
        return set().union(*self.rows.values())

    def by_use(self) -> list[int]:
        return sorted(self.rows, key=lambda row: (-len(self.rows[row]), row))


class EvidenceWalk:
    """The concepts of a graph that people read, and the studies that name them."""

    def __init__(self, graph: Graph, names: pa.ChunkedArray, types: pa.ChunkedArray,
                 is_value: Bools, abbreviations: Path | None) -> None:  # fmt: skip
        """Read which study names which entity; sentences are read on demand."""
        self._graph, self._names, self._types = graph, names, types
        self._spelling = Spelling(read_abbreviations(abbreviations) if abbreviations else {})
        self._is_value = is_value
        self.columns = columns_of(types, names)
        self.good: Bools = passes(names) & (self.columns >= 0) & ~is_value
        self._doc_array, self._pairs = _studies(graph, types)
        self._doc_ids: list[str] = self._doc_array.to_pylist()
        self._of_entity = np.argsort(self._pairs[:, 1], kind="stable")
        self.num_studies: Ints = np.bincount(self._pairs[:, 1], minlength=len(graph.ids))

    def shown(self, row: int) -> bool:
        """Whether an entity clears the bar."""
        return bool(self.good[row]) and self._spelling.knows(self._names[row].as_py())

    def key(self, row: int) -> tuple[int, str]:
        """What the entities of one concept share: column and words."""
        column = int(self.columns[row])
        return column, self._spelling.key(self._names[row].as_py(), column)

    def merged(self, rows: Ints) -> list[list[int]]:
        """Group entities that clear the bar by concept; the order is that of their first rows."""
        found: dict[tuple[int, str], list[int]] = {}
        for row in rows.tolist():
            if self.shown(row):
                found.setdefault(self.key(row), []).append(row)
        return list(found.values())

    def label(self, rows: Sequence[int]) -> tuple[str, list[str]]:
        """The name of a concept and its other spellings; rows by descending use."""
        return self._spelling.shown([self._names[row].as_py() for row in rows])

    def most_studied(self, count: int) -> Iterator[list[int]]:
        """Concepts of each column that most studies name.

        What rules read as of several columns stands in the one in which most studies name it.
        """
        groups: list[list[int]] = []
        for column in range(len(COLUMNS)):
            rows = np.flatnonzero(self.good & (self.columns == column))
            top = rows[np.argsort(-self.num_studies[rows], kind="stable")][:_CANDIDATES]
            groups += self.merged(top)
        groups.sort(key=lambda rows: -self.count(rows))  # stable: the first column of equals
        first: dict[str, list[int]] = {}
        for group in groups:
            first.setdefault(self.key(group[0])[1], group)
        for column in range(len(COLUMNS)):
            here = (group for group in first.values() if self.columns[group[0]] == column)
            yield from itertools.islice(here, count)

    def count(self, rows: Sequence[int]) -> int:
        """Number of studies that name any of these entities."""
        return len(self._studies_of(rows))

    def of_entity(self, row: int, text: str = "") -> Row:
        """The walk through the studies that name an entity, in any spelling."""
        rows = self.same(row)
        name = self.label(rows)[0] if self.shown(row) else self._names[row].as_py()
        is_document = self._types[row].as_py() == DOCUMENT_TYPE
        studies = self._of_document(row) if is_document else self._studies_of(rows)
        return self._walk([self._doc_ids[code] for code in studies], f"Around “{name}”", text, rows)

    def of_documents(self, doc_ids: Sequence[str], text: str) -> Row:
        """The walk through these documents; those that are not in the graph are left out."""
        known = set(self._doc_ids)
        found = [doc_id for doc_id in dict.fromkeys(doc_ids) if doc_id in known]
        return self._walk(found, text or "Chosen papers", text, ())

    def same(self, row: int) -> list[int]:
        """The entities of an entity's concept, itself first, then by descending use."""
        if not self.shown(row):
            return [row]
        key = self.key(row)
        near = np.flatnonzero(self.good & (self.columns == key[0]))
        for word in sorted(key[1].split(), key=len, reverse=True):
            names = self._names.take(pa.array(near))
            holds = pc.match_substring_regex(names, self._spelling.written(word), ignore_case=True)
            near = near[holds.to_numpy()]
        near = near[np.argsort(-self.num_studies[near], kind="stable")][:_CANDIDATES]
        return [row, *(n for n in near.tolist() if n != row and self.key(n) == key)]

    def _studies_of(self, rows: Sequence[int]) -> list[int]:
        ends = self._pairs[self._of_entity, 1]
        found: set[int] = set()
        for row in rows:
            low, high = np.searchsorted(ends, [row, row + 1])
            found.update(self._pairs[self._of_entity[low:high], 0].tolist())
        return sorted(found)

    def _of_document(self, row: int) -> list[int]:
        wanted = self._graph.ids[row].as_py()
        return [code for code, doc_id in enumerate(self._doc_ids)
                if entity_id(DOCUMENT_TYPE, doc_id) == wanted]  # fmt: skip

    def _walk(self, doc_ids: Sequence[str], title: str, text: str, centre: Sequence[int]) -> Row:
        total = len(doc_ids)
        if centre:
            doc_ids = self._best_first(doc_ids)
        doc_ids = doc_ids[:MAX_STUDIES]
        groups = self._groups(doc_ids)
        asked = set(tokens_of(text))
        chosen, left_out = [], []
        for column in range(len(COLUMNS)):
            mine = [group for key, group in groups.items() if key[0] == column]
            ranked = sorted(mine, key=lambda group: self._worth(group, asked, set(centre)))
            chosen += [(column, group) for group in _covering(ranked, MAX_COLUMN)]
            left_out.append(max(0, len(mine) - MAX_COLUMN))
        concepts = [self._concept(column, group, asked) for column, group in chosen]
        documents = self._quoted(concepts, chosen, doc_ids)
        return {"title": title, "bar": BAR, "total": total, "left_out": left_out,
                "concepts": concepts, "documents": documents}  # fmt: skip

    def _best_first(self, doc_ids: Sequence[str]) -> list[str]:
        units = self._graph.units
        if units is None:
            raise ValueError("stage 'units' is not in this build; a page shows its sentences")
        told = units.take_documents(list(doc_ids)).select(["doc_id", "grade", "year"]).to_pylist()
        told.sort(key=lambda row: (_RANK.get(row["grade"], 9), -(row["year"] or 0), row["doc_id"]))
        return [row["doc_id"] for row in told]

    def _groups(self, doc_ids: Sequence[str]) -> dict[tuple[int, str], _Group]:
        """Concepts that these documents name."""
        codes = pc.index_in(pa.array(doc_ids, pa.string()), value_set=self._doc_array).to_pylist()
        groups: dict[tuple[int, str], _Group] = defaultdict(_Group)
        documents = self._pairs[:, 0]
        for code in codes:
            low, high = np.searchsorted(documents, [code, code + 1])
            for row in self._pairs[low:high, 1].tolist():
                if self.shown(row):
                    groups[self.key(row)].rows[row].add(code)
        return groups

    def _worth(self, group: _Group, asked: set[str], centre: set[int]) -> tuple[Any, ...]:
        """Sorts concepts: what was opened, what was asked for, what more studies name.

        Of equals those that other studies name too come first, and single words that none does,
        which are often no names, last.
        """
        rows = group.by_use()
        name = self.label(rows)[0]
        words = set(tokens_of(self._spelling.spelled(name)))
        shared = len(words & asked) / max(1, len(words))
        everywhere = int(self.num_studies[rows].sum())
        lone = everywhere == 1 and name.isalpha() and name.islower()
        opened = bool(centre & set(group.rows))
        return (not opened, -round(shared, 2), -len(group.studies), lone, -everywhere, len(name),
                name)  # fmt: skip

    def _concept(self, column: int, group: _Group, asked: set[str]) -> Row:
        rows = group.by_use()
        name, aliases = self.label(rows)
        words = set(tokens_of(self._spelling.spelled(name)))
        return {
            "id": self._graph.ids[rows[0]].as_py(),
            "name": name,
            "aliases": aliases,
            "type": self._types[rows[0]].as_py(),
            "column": column,
            "asked": bool(words) and 2 * len(words & asked) >= len(words),
        }

    def _quoted(self, concepts: list[Row], chosen: Sequence[tuple[int, _Group]],
                doc_ids: Sequence[str]) -> list[Row]:  # fmt: skip
        """Add sentences and studies to the concepts; return the studies."""
        owner = {row: place for place, (_, group) in enumerate(chosen) for row in group.rows}
        wanted = set(doc_ids)
        for concept in concepts:
            concept["mentions"] = []
        rows = np.array(sorted(owner), np.int64)
        for found, table in self._graph.select(rows).entity_batches(mentions=True):
            for row, mentions in zip(
                found.tolist(), table["mention_list"].to_pylist(), strict=True
            ):
                mine = concepts[owner[row]]["mentions"]
                mine += [each for each in mentions if each["doc_id"] in wanted]
        documents = with_quotes(self._graph, concepts, _SENTENCES)
        for concept in concepts:
            del concept["more"]
            studies = {each["document"] for each in concept["mentions"]}
            concept["studies"] = sorted(
                studies, key=lambda n: (_RANK.get(documents[n]["grade"], 9), n)
            )
        return documents


def _covering(ranked: Sequence[_Group], count: int) -> list[_Group]:
    """So many groups in their order: first one for each study, then the first of the rest."""
    covered: set[int] = set()
    kept: list[int] = []
    for place, group in enumerate(ranked):
        if not group.studies <= covered:
            covered |= group.studies
            kept.append(place)
    rest = [place for place in range(len(ranked)) if place not in set(kept)]
    return [ranked[place] for place in sorted((kept + rest)[:count])]


def _studies(graph: Graph, types: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Documents of relations, and pairs (document, entity) that they tell of, sorted."""
    is_document = pc.equal(types, DOCUMENT_TYPE).to_numpy()
    edges = pq.read_table(graph.edges, columns=["kind", "mentions"], partitioning=None)
    mentions = edges["mentions"].combine_chunks()
    parents = pc.list_parent_indices(mentions).to_numpy().astype(np.int64)
    coded = pc.struct_field(pc.list_flatten(mentions), "doc_id").dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    kept = pc.equal(edges["kind"], "relation").to_numpy()[parents]
    parents, codes = parents[kept], codes[kept]
    ends = np.concatenate([graph.heads[parents], graph.tails[parents]])
    pairs = np.stack([np.concatenate([codes, codes]), ends], axis=1)
    return coded.dictionary, np.unique(pairs[~is_document[ends]], axis=0)


_LISTED = 12
_MATCHES = 100
_PER_COLUMN = 12


class Entity(BaseModel):
    """A node by its name."""

    id: str
    name: str
    type: str
    relations: int


class Named(Entity):
    """A concept where one may begin."""

    aliases: list[str] = Field(description="its other spellings")
    studies: int = Field(description="documents that name it")
    column: int = Field(description="0 population or condition, 1 intervention, 2 outcome")


class Names(BaseModel):
    """Where to begin."""

    bar: str = Field(description="which entities are shown, in words")
    entities: list[Named]


class GraphView:
    """An opened graph with its names in memory; raises ValueError for a build without a graph."""

    def __init__(self, root: Path, build: str) -> None:
        """Read ids, names, types and edges; sentences are read on demand."""
        artifacts = Store(root).artifacts(build)
        self.graph = open_graph(artifacts)
        table = pa.concat_tables([table for _, table in self.graph.entity_batches()])
        self.entity_names, self._types = table["name"], table["type"]
        self._keys = folded(self.entity_names)
        ends = np.concatenate([self.graph.heads, self.graph.tails])
        self.degrees = np.bincount(ends, minlength=len(self.graph.ids))
        self._is_value: npt.NDArray[np.bool_] = self.graph.attribute_nodes()
        short = Path(artifacts["abbreviations"]) if "abbreviations" in artifacts else None
        self.walk = EvidenceWalk(self.graph, self.entity_names, self._types, self._is_value, short)

    def names(self, text: str) -> Row:
        """Find concepts whose name contains a text; exact names first, then by studies.

        Only what clears the bar is found. If no name contains the text, returns those with the
        most similar names. For "" returns what most studies name, of each column.
        """
        key = folded(pa.chunked_array([[text]]))[0].as_py()
        if not key:
            found = [self._named(rows) for rows in self.walk.most_studied(_PER_COLUMN)]
            return {"bar": BAR, "entities": found}
        holds = pc.match_substring(self._keys, key).to_numpy() & ~self._is_value
        if not holds.any():
            close = pa.array(nearest(self.entity_names, self._keys, key), pa.string())
            holds = pc.is_in(self.entity_names, value_set=close).to_numpy()
        rows = np.flatnonzero(holds & self.walk.good)
        exact = pc.equal(self._keys, key).to_numpy()[rows]
        order = np.lexsort((rows, -self.walk.num_studies[rows], ~exact))
        groups = self.walk.merged(rows[order][:_MATCHES])
        listed = [self._named(self.walk.same(rows[0])) for rows in groups[:_LISTED]]
        return {"bar": BAR, "entities": listed}

    def row_of(self, entity_id: str) -> int | None:
        """The row of an entity, or None."""
        row = int(pc.index(self.graph.ids, pa.scalar(entity_id, self.graph.ids.type)).as_py())
        return row if row >= 0 else None

    def _named(self, rows: Sequence[int]) -> Row:
        name, aliases = self.walk.label(rows)
        column, studies = self.walk.key(rows[0])[0], self.walk.count(rows)
        told = {**self._entity(rows[0]), "name": name}
        return {**told, "aliases": aliases, "studies": studies, "column": column}

    def _entity(self, row: int) -> Row:
        return {
            "id": self.graph.ids[row].as_py(),
            "name": self.entity_names[row].as_py(),
            "type": self._types[row].as_py(),
            "relations": int(self.degrees[row]),
        }
