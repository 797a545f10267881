"""The opened graph index: finds windows by the entities, triples and topics that they mention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.graph_scores import (
    RELATION_WEIGHT,
    best_by_segment,
    best_members,
    candidates,
    triple_scores,
    word_cover,
)
from srrag.algo.maxsim import take_ragged
from srrag.core.hits import SCORE_DECIMALS
from srrag.core.standing import counted_as
from srrag.graph.name_vectors import NameVectors
from srrag.index.graph import CODED, TOPICS
from srrag.index.graph_names import GraphNames, Linked
from srrag.index.graph_walk import DOCUMENT, Transitions, read_array, read_codes, read_ragged
from srrag.storage.mapped_table import MappedTable, map_table

RESTART = 0.15
STEPS = 5


def walk(
    step: Callable[[Floats], Floats], seeds: Floats, restart: float = RESTART, steps: int = STEPS
) -> Floats:
    """Expected place of a walk that begins at the seeds and returns with `restart`: float32 (n,).

    Personalised PageRank (Page et al. 1999; Haveliwala 2002) by a fixed number of power iterations,
    so that nothing further than `steps` links from a seed is reached. `step` moves each place along
    the links by their shares, `seeds` (n,) are weights of at least 0. All zero without a seed.
    """
    total = float(seeds.sum())
    if total <= 0:
        return np.zeros(len(seeds), np.float32)
    start = (seeds / total).astype(np.float32)
    place = start
    for _ in range(steps):
        place = restart * start + (1.0 - restart) * step(place)
    return place.astype(np.float32)


Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

_PARTIAL = 0.3
"""Worth of a word in a name that the question otherwise lacks; in a name that it holds, 1.3."""
_SEMANTIC = 0.5
"""Weight of a name's cosine in a walk's seed; its words have weight 1."""
_SHARPNESS = 3
"""Power of a seed's weight."""


@dataclass(frozen=True, kw_only=True)
class GraphWeights:
    """The weight of each part in a window's score; no part holds the window's own vector.

    `entities`: names that the question holds, in words and by vector. `triples`: the best triple,
    in words and by vector. `communities`: the best topic, by its description and its keyword.
    `spread`: how often a walk from the linked entities visits the window.
    """

    entities: float = 1.0
    triples: float = 0.25
    communities: float = 0.1
    spread: float = 2.0


PARTS = tuple(item.name for item in fields(GraphWeights))


@dataclass(frozen=True, kw_only=True)
class GraphWalk:
    """A walk with `restart` from at most `seeds` entities over `steps` links; 0 steps: no walk."""

    restart: float = RESTART
    steps: int = STEPS
    seeds: int = 30

    def __post_init__(self) -> None:
        """Raise ValueError for impossible settings."""
        if not 0 <= self.restart <= 1 or self.steps < 0 or self.seeds < 1:
            raise ValueError("walk: restart is 0…1, steps 0 or more, seeds 1 or more")


@dataclass(frozen=True, kw_only=True)
class GraphLimits:
    """Limits of a search to some topics, and to nodes of the types that a question asks for.

    `communities` keeps the windows of that many best communities; 0 keeps all. `off_type` is what a
    node counts that is of none of the types that a question asks for: 1 as much as any other, 0
    nothing.
    """

    communities: int = 0
    off_type: float = 0.9

    def __post_init__(self) -> None:
        """Raise ValueError for a share outside 0…1."""
        if not 0 <= self.off_type <= 1 or self.communities < 0:
            raise ValueError("limits: off_type is 0…1, communities 0 or more")


@dataclass(frozen=True)
class GraphQuestion:
    """A question: its text, and for each part float32 vectors (n, d) as bytes, b"" for none."""

    text: str
    entity: bytes
    triple: bytes
    community: bytes
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reached:
    """Windows, best first, each with its parts and its best node, edge and community, or ""."""

    unit_ids: pa.Array
    scores: Floats
    parts: Mapping[str, Floats]
    entity_ids: pa.Array
    edge_ids: pa.Array
    community_ids: pa.Array


class GraphIndex:
    """Maps the files and scores the whole graph, so the search is exact."""

    def __init__(
        self,
        folder: Path,
        weights: GraphWeights | None = None,
        limits: GraphLimits | None = None,
        steps: GraphWalk | None = None,
    ) -> None:
        """Map the arrays; raises ValueError for an index of another version."""
        if not (folder / "links.npy").exists():
            raise ValueError(f"{folder}: a graph index of another version; run the build again")
        self._weights = weights or GraphWeights()
        self._limits = limits or GraphLimits()
        self._walk = steps or GraphWalk()
        self._nodes, self._topics = NameVectors(folder), NameVectors(folder / TOPICS)
        array = partial(read_array, folder)
        self._shown = {name: read_ragged(folder, f"window_{name}") for name in ("nodes", "edges")}
        self._windows_of = read_ragged(folder, "node_windows")
        self._edges = [array(f"edge_{name}") for name in ("heads", "tails", "lengths")]
        self._relations = array("relation_vectors")
        self._topic_of = array("node_communities"), array("node_keywords")
        self._names = GraphNames(folder)
        tables = {"nodes": self._nodes.names, "communities": self._topics.names}
        tables["edges"] = map_table(folder / "edges.arrow")
        self._ids = {name: MappedTable(table) for name, table in tables.items()}
        self._unit_ids = MappedTable(map_table(folder / "windows.arrow"))
        self._codes = {name: read_codes(folder, name) for name in CODED}
        self._is_document = self._mask("node_types", (DOCUMENT,))
        self._steps = Transitions(folder, self._shown["nodes"], self._is_document)

    def search(
        self, question: GraphQuestion, k: int, tracks: Sequence[Sequence[str]] = ((),)
    ) -> list[Reached]:
        """Return for each track the k best windows of its grades that any part reaches.

        A track without grades takes all. The scores of the graph are computed once for all tracks.
        """
        linked = self._names.link(question.text)
        fit = self._type_fit(question.types)
        cosines = _nearest(self._nodes.products(self._rows(question.entity)), len(fit))
        in_words = _best_at(linked.nodes, linked.links, len(fit))
        node = (in_words + np.maximum(cosines, 0)) * fit
        node[self._is_document | (fit == 0)] = -np.inf
        edge = self._triples(question, in_words, linked, fit)
        topic = self._topic(question, cosines, fit)
        shown = best_by_segment(np.maximum(cosines, 0) * fit, *self._shown["nodes"])
        parts: dict[str, Floats] = {
            "entities": np.float32(0.5) * (self._covered(linked, fit) + _floor(shown)),
            "triples": _floor(best_by_segment(edge, *self._shown["edges"])),
            "communities": _floor(best_by_segment(topic, *self._shown["nodes"])),
            "spread": self._spread(in_words, cosines, fit),
        }
        score: Floats = np.zeros(len(self._unit_ids), np.float32)
        for name in PARTS:
            score += np.float32(getattr(self._weights, name)) * parts[name]
        score[~self._reached(node, edge, topic, parts, bool(question.types))] = -np.inf
        best = {"nodes": node, "edges": edge, "topics": topic}
        return [self._best(score, parts, best, k, grades) for grades in tracks]

    def _best(
        self,
        score: Floats,
        parts: Mapping[str, Floats],
        best: Mapping[str, Floats],
        k: int,
        grades: Sequence[str],
    ) -> Reached:
        """Return the k best windows of these grades with their parts and paths."""
        within = np.where(self._graded(grades), score, -np.inf) if grades else score
        rows = candidates(within, k, SCORE_DECIMALS)
        ids = self._unit_ids.take_column(rows.astype(np.int64), "id")
        order = np.lexsort((np.asarray(ids), -np.round(score[rows], SCORE_DECIMALS)))[:k]
        rows = rows[order]
        topics = best_members(best["topics"], *self._shown["nodes"], rows)
        topics = np.where(topics < 0, -1, self._topic_of[0][topics])
        return Reached(
            ids.take(pa.array(order)),
            score[rows],
            {name: values[rows] for name, values in parts.items()},
            self._named("nodes", best_members(best["nodes"], *self._shown["nodes"], rows)),
            self._named("edges", best_members(best["edges"], *self._shown["edges"], rows)),
            self._named("communities", topics),
        )

    def _named(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """The ids of these rows; "" for a row below 0."""
        table, some = self._ids[name], np.flatnonzero(rows >= 0)
        found = np.full(len(rows), "", object)
        found[some] = table.take_column(rows[some].astype(np.int64), "id").to_pylist()
        return pa.array(found, pa.string())

    def _reached(
        self,
        node: Floats,
        edge: Floats,
        topic: Floats,
        parts: Mapping[str, Floats],
        typed: bool,
    ) -> Bools:
        """Mask the windows with any hit; the communities' limit drops those without a topic.

        Topics and walks alone lead to a window only if the search is not limited to a type.
        """
        limited = typed and self._limits.off_type == 0
        on_topic = np.isfinite(best_by_segment(topic, *self._shown["nodes"]))
        found: Bools = (parts["entities"] > 0) & np.isfinite(
            best_by_segment(node, *self._shown["nodes"])
        )
        found |= np.isfinite(best_by_segment(edge, *self._shown["edges"])) & (parts["triples"] > 0)
        if not limited:
            found |= (parts["communities"] > 0) | (parts["spread"] > 0)
        return found & on_topic if self._limits.communities else found

    def _type_fit(self, asked: Sequence[str]) -> Floats:
        """Weight of each node: 1, or `off_type` if the question asks for others."""
        fit = np.ones(len(self._is_document), np.float32)
        if asked:
            fit[~self._mask("node_types", tuple(asked))] *= np.float32(self._limits.off_type)
        return fit

    def _covered(self, linked: Linked, fit: Floats) -> Floats:
        """The share of the question that each window's names cover, word by word, 0…1."""
        windows, offsets = self._windows_of
        inside, ends = take_ragged(offsets, linked.nodes)
        entry = np.repeat(np.arange(len(linked.nodes)), np.diff(ends))
        values = (_PARTIAL + linked.fit) / (1 + _PARTIAL) * fit[linked.nodes]
        return word_cover(
            windows[inside], linked.words[entry], values[entry], linked.weights, len(self._unit_ids)
        )

    def _triples(
        self, question: GraphQuestion, in_words: Floats, linked: Linked, fit: Floats
    ) -> Floats:
        """Score all triples: mean of their cosine and of what their ends hold of the question."""
        heads, tails, lengths = self._edges
        codes, _ = self._codes["edge_relations"]
        asked = self._rows(question.triple)
        nodes = self._nodes.products(asked)
        between = RELATION_WEIGHT * (asked @ self._relations.T)
        cosines = [
            triple_scores(scores, heads, tails, lengths, said[codes])
            for scores, said in zip(nodes, between, strict=True)
        ]
        ends = np.append(in_words, np.float32(0))
        score = (ends[heads] + ends[tails]) / 2
        if cosines:
            score = (score + np.maximum(np.max(cosines, axis=0), 0)) / 2
        ends = np.append(fit, np.float32(0))
        score = score * np.maximum(ends[heads], ends[tails])
        score[score <= 0] = -np.inf
        found: Floats = score.astype(np.float32)
        return found

    def _topic(self, question: GraphQuestion, cosines: Floats, fit: Floats) -> Floats:
        """Score each node by its community's description and by its keyword."""
        community, keyword = self._topic_of
        asked = self._rows(question.community)
        told = _floor(_nearest(self._topics.products(asked), len(self._topics)))
        best = self._limits.communities
        if 0 < best < len(told):
            order = np.argsort(-np.round(told, SCORE_DECIMALS), kind="stable")
            told[order[best:]] = -np.inf
        central = np.where(keyword >= 0, np.maximum(cosines, 0)[keyword], 0)
        score = (told[community] + central) / 2
        score[fit == 0] = -np.inf
        found: Floats = score.astype(np.float32)
        return found

    def _spread(self, in_words: Floats, cosines: Floats, fit: Floats) -> Floats:
        """How often a walk from the linked entities visits each window: √(p / max p), 0…1."""
        num = len(self._unit_ids)
        if not self._walk.steps or not len(fit):
            return np.zeros(num, np.float32)
        semantic = np.where(self._is_document, 0, np.maximum(cosines, 0))
        weight = _scaled(in_words) + _SEMANTIC * _scaled(semantic)
        weight = weight**_SHARPNESS * self._steps.rarity * fit
        weight[self._is_document] = 0
        order = np.argsort(-np.round(weight, SCORE_DECIMALS), kind="stable")[: self._walk.seeds]
        seeds = np.zeros(self._steps.size, np.float32)
        seeds[order] = weight[order]
        visits = walk(self._steps, seeds, self._walk.restart, self._walk.steps)
        return np.sqrt(_scaled(visits[len(fit) : len(fit) + num])).astype(np.float32)

    def _rows(self, vectors: bytes) -> Floats:
        """The vectors as rows (n, d)."""
        return np.frombuffer(vectors, np.float32).reshape(-1, self._nodes.width)

    def _graded(self, grades: Sequence[str]) -> Bools:
        """Mask the windows of these grades."""
        codes, words = self._codes["window_grades"]
        known = counted_as(pa.array(words, pa.string())).to_pylist()
        found: Bools = np.array([grade in grades for grade in known], np.bool_)[codes]
        return found

    def _mask(self, name: str, words: Sequence[str]) -> Bools:
        """Mask the rows of a coded column with one of the words."""
        codes, known = self._codes[name]
        found: Bools = np.array([word in words for word in known], np.bool_)[codes]
        return found


def _nearest(scores: Floats, size: int) -> Floats:
    """Return the maximum over vectors (m, n) → (n,); 0 without a vector."""
    found: Floats = scores.max(axis=0) if len(scores) else np.zeros(size, np.float32)
    return found


def _best_at(rows: npt.NDArray[np.int64], values: Floats, size: int) -> Floats:
    """The best value of each row, 0 for none: (size,)."""
    found = np.zeros(size, np.float32)
    np.maximum.at(found, rows, values)
    return found


def _scaled(values: Floats) -> Floats:
    """Divide by the maximum, so that the best is 1."""
    found: Floats = values / max(float(values.max(initial=0)), 1e-12)
    return found


def _floor(scores: Floats) -> Floats:
    """0 in place of a score below it."""
    found: Floats = np.maximum(scores, np.float32(0))
    return found
