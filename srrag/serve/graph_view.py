"""Lets people explore a build's graph: concepts by name, where a walk may begin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field

from srrag.export.graph import open_graph
from srrag.export.select import folded, nearest
from srrag.serve.concepts_shown import BAR
from srrag.serve.graph_walk import EvidenceWalk
from srrag.storage.store import Store

_LISTED = 12
_MATCHES = 100
_PER_COLUMN = 12

Row = dict[str, Any]


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
