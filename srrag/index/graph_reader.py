"""The opened graph index: finds windows by the entities, triples and communities they mention."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.graph_scores import (
    best_by_segment,
    best_members,
    candidates,
    inner_products,
    triple_scores,
)
from srrag.grades import counted_as
from srrag.index.graph import CODED, DOCUMENT, MAX_NAME_TERMS, name_key
from srrag.index.sparse import analyzer
from srrag.ranking import SCORE_DECIMALS

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class GraphWeights:
    """The weight of each part of the evidence in a window's score.

    `context` weighs the cosine of the question with the window itself; `entity`, `triple` and
    `community` the cosine with the best of each that it mentions. `exact` is the maximum bonus of
    an entity whose whole name is in the question.
    """

    context: float = 1.0
    entity: float = 0.1
    exact: float = 0.4
    triple: float = 0.1
    community: float = 0.05


@dataclass(frozen=True, kw_only=True)
class GraphLimits:
    """Limits of a search to nodes and triples of some types.

    Empty means no limit; `relations` limits only triples. `communities` keeps the windows of that
    many best communities; 0 keeps all.
    """

    entity_types: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    communities: int = 0


@dataclass(frozen=True)
class GraphQuestion:
    """A question: its text and vector, and vectors (n, d) for each part; none skips the part."""

    text: str
    vector: Floats
    entity: Floats
    triple: Floats
    community: Floats
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reached:
    """Windows, best first, each with its best node, edge and community, or ""."""

    unit_ids: pa.Array
    scores: Floats
    entity_ids: pa.Array
    edge_ids: pa.Array
    community_ids: pa.Array


class GraphIndex:
    """Maps the files and scores the whole graph, so the search is exact."""

    def __init__(self, folder: Path, weights: GraphWeights, limits: GraphLimits) -> None:
        """Map the arrays and compute the masks of the limits."""
        self._folder = folder
        self._weights = weights
        self._limits = limits
        self._nodes = self._vectors("nodes")
        self._windows = self._vectors("windows")
        self._communities = self._vectors("communities")
        self._mentions = {
            name: (self._array(f"window_{name}"), self._array(f"window_{name}.offsets"))
            for name in ("nodes", "edges", "communities")
        }
        self._edges = [self._array(f"edge_{n}") for n in ("heads", "tails", "lengths")]
        self._names = self._array("names.keys"), self._array("names.rows")
        self._rarity = self._array("rarity")
        self._ids = {name: self._id_column(name) for name in ("nodes", "edges", "communities")}
        self._unit_ids = self._id_column("windows")
        self._analyzer = analyzer()
        self._codes = {name: (self._array(name), self._words(name)) for name in CODED}
        self._is_document = self._mask("node_types", (DOCUMENT,))
        self._relation_fits = self._mask("edge_relations", limits.relations)

    def search(
        self, question: GraphQuestion, k: int, tracks: Sequence[Sequence[str]] = ((),)
    ) -> list[Reached]:
        """Return for each track the k best windows of its grades that mention any graph element.

        A track without grades takes all. The scores of the graph are computed once for all tracks.
        """
        entity, triple, community = self._scores(question)
        evidence = {"nodes": entity, "edges": triple, "communities": community}
        best = {n: best_by_segment(evidence[n], *self._mentions[n]) for n in evidence}
        weights = self._weights
        score = weights.context * inner_products(*self._windows, question.vector[None])[0]
        shares = {
            "nodes": weights.entity, "edges": weights.triple, "communities": weights.community,
        }  # fmt: skip
        for name, weight in shares.items():
            # Missing parts and negative cosines do not lower a window's score.
            score += np.float32(weight) * np.maximum(best[name], 0)
        score[~self._reached(best, bool(question.types))] = -np.inf
        return [self._best(score, evidence, k, grades) for grades in tracks]

    def _best(
        self, score: Floats, evidence: Mapping[str, Floats], k: int, grades: Sequence[str]
    ) -> Reached:
        """Return the k best windows of these grades with their paths."""
        within = np.where(self._graded(grades), score, -np.inf) if grades else score
        rows = candidates(within, k, SCORE_DECIMALS)
        ids = self._unit_ids.take(pa.array(rows))
        order = np.lexsort((np.asarray(ids), -np.round(score[rows], SCORE_DECIMALS)))[:k]
        paths = [self._path(name, evidence[name], rows[order]) for name in evidence]
        return Reached(ids.take(pa.array(order)), score[rows[order]], *paths)

    def _reached(self, best: Mapping[str, Floats], typed: bool) -> Bools:
        """Mask the windows with any hit; communities count only if no type is required."""
        found = {name: np.isfinite(scores) for name, scores in best.items()}
        reached: Bools = found["nodes"] | found["edges"]
        if not (typed or self._limits.entity_types or self._limits.relations):
            reached |= found["communities"]
        return reached & found["communities"] if self._limits.communities else reached

    def _scores(self, question: GraphQuestion) -> tuple[Floats, Floats, Floats]:
        """Return the scores of all nodes, edges and communities; -inf outside the limits."""
        types = self._limits.entity_types
        if question.types:
            types = tuple(set(types) & set(question.types)) if types else question.types
            types = types or ("",)
        nodes = inner_products(*self._nodes, question.entity)
        entity = _nearest(nodes)
        named = self._named(question.text)
        entity[named] += np.float32(self._weights.exact) * self._rarity[named]
        entity[self._is_document | ~self._mask("node_types", types)] = -np.inf
        if question.triple is not question.entity:
            nodes = inner_products(*self._nodes, question.triple)
        ends = [triple_scores(scores, *self._edges) for scores in nodes]
        triple = _nearest(np.stack(ends)) if ends else np.full(len(self._edges[0]), -np.inf, "f4")
        fits = self._mask("edge_head_types", types) | self._mask("edge_tail_types", types)
        triple[~(fits & self._relation_fits)] = -np.inf
        community = _nearest(inner_products(*self._communities, question.community))
        if 0 < self._limits.communities < len(community):
            order = np.argsort(-np.round(community, SCORE_DECIMALS), kind="stable")
            community[order[self._limits.communities :]] = -np.inf
        return entity, triple, community

    def _named(self, text: str) -> npt.NDArray[np.int32]:
        """Return the nodes whose whole name is in the text, term by term."""
        terms = self._analyzer.analyze(text)
        runs = {
            name_key(terms[start:end])
            for start in range(len(terms))
            for end in range(start + 1, min(len(terms), start + MAX_NAME_TERMS) + 1)
        }
        wanted = np.array(sorted(runs), np.uint64)
        keys, rows = self._names
        low, high = (np.searchsorted(keys, wanted, side) for side in ("left", "right"))
        found = [rows[a:b] for a, b in zip(low, high, strict=True)]
        return np.concatenate([np.zeros(0, np.int32), *found])

    def _path(self, name: str, scores: Floats, windows: npt.NDArray[np.int64]) -> pa.Array:
        """Return each window's best mentioned element by id; "" if it mentions none."""
        members, offsets = self._mentions[name]
        rows = best_members(scores, members, offsets, windows)
        ids = self._ids[name].take(pa.array(rows, mask=rows < 0))
        return pc.fill_null(ids, "")

    def _graded(self, grades: Sequence[str]) -> Bools:
        """Mask the windows of these grades."""
        codes, words = self._codes["window_grades"]
        known = counted_as(pa.array(words, pa.string())).to_pylist()
        found: Bools = np.array([grade in grades for grade in known], np.bool_)[codes]
        return found

    def _mask(self, name: str, words: Sequence[str]) -> Bools:
        """Mask the rows of a coded column with one of the words; without words, all rows."""
        codes, known = self._codes[name]
        if not words:
            return np.ones(len(codes), np.bool_)
        found: Bools = np.array([word in words for word in known], np.bool_)[codes]
        return found

    def _vectors(self, name: str) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
        return self._array(f"{name}.vectors"), self._array(f"{name}.scales")

    def _array(self, name: str) -> npt.NDArray[Any]:
        """Map an array as a plain ndarray view, since np.memmap is slow to index."""
        return np.asarray(np.load(self._folder / f"{name}.npy", mmap_mode="r"))

    def _words(self, name: str) -> list[str]:
        words: list[str] = json.loads((self._folder / f"{name}.json").read_text("utf-8"))
        return words

    def _id_column(self, name: str) -> pa.Array:
        table = pa.ipc.open_file(pa.memory_map(str(self._folder / f"{name}.arrow"))).read_all()
        return table["id"].combine_chunks()


def _nearest(scores: Floats) -> Floats:
    """Return the maximum over vectors (m, n) → (n,); -inf without a vector."""
    found: Floats = scores.max(axis=0, initial=-np.inf)
    return found
