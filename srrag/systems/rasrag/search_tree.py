"""RASRAG's search: one chapter, its big text units, their small ones; else the next chapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.fusion import flat_ranges, group_means, rank_scores
from srrag.core.hits import SCORE_DECIMALS, codes, pack_ranking
from srrag.core.rows import with_columns
from srrag.core.schema import HITS, columns
from srrag.core.spec import fingerprint, spec
from srrag.core.step import Function, Place, Step
from srrag.model.encoder import Encoder
from srrag.rerank.feature_weights import embedder_name
from srrag.systems.rasrag.textbook_tree import TreeForest
from srrag.systems.rasrag.thresholds import QUANTILES, Thresholds, read_thresholds

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Pairs = Callable[[pa.Table, pa.Array, Ints], npt.NDArray[Any]]
Texts = Callable[[str, Sequence[str]], npt.NDArray[Any]]

TREE_TRACE = pa.list_(
    pa.struct(columns("root btu_definite:int btu_candidate:int stu_scored:int outcome"))
)
"""The chapters that were searched, in order. `outcome` is what each gave: definite_btu,
definite_stu, candidate, all (without thresholds), or nothing."""
FOUND = ("definite_btu", "definite_stu", "candidate", "all")
"""Outcomes that end a search."""


@dataclass(frozen=True, kw_only=True)
class SearchTree(Step):
    """Find the small text units (STU) of the chapter that fits a question (RASRAG, section 1.3).

    Roots are ranked by the cosine of the question's keywords with their titles, the best title
    counting. With `roots: 2` (the paper) the better of the best two by mean BTU score is searched
    first (Eq. 3); with 1 the best. In it (Eq. 4, 5):

    1. BTUs above `btu_definite` end the search: all their STUs are returned.
    2. Else STUs of BTUs above `btu_candidate` are scored: those above `stu_definite` are returned,
       else those above `stu_candidate`.
    3. Else STUs above `stu_uncertain` are held, and the next root is searched, at most `most_roots`
       more (κ_max; 28 in the paper's example). If none ends the search, the held STUs are returned.

    What is returned is ordered by STU score. `thresholds` is a file of `srrag fit_thresholds`,
    whose content is part of the identity; "" returns every STU of the first root. A file fitted on
    vectors of another `encoder` is refused.

    `scorer` is a reranker. With `scores: vectors` a BTU's score is the cosine of its vector, and
    the scorer scores STUs; with `texts` the scorer, which then reads texts (a cross-encoder or
    RankLLaMA), scores roots, BTUs and STUs, as printed.
    """

    scorer: Step
    thresholds: str = field(default="", compare=False, metadata={"identity": False})
    set_to: Thresholds | None = None
    """Thresholds given here, in place of a file's."""
    moved: Mapping[str, float] = field(default_factory=dict)
    """Shifts of single thresholds, to measure the effect of each (appendix A.2)."""
    roots: int = 2
    most_roots: int = 28
    scores: Literal["vectors", "texts"] = "vectors"
    encoder: Encoder = field(default_factory=Encoder)
    tree: str = "forest"
    into: str = "hits"

    reads_: ClassVar[tuple[str, ...]] = ("text", "query_vector", "keyword_vector", "keywords")

    def __post_init__(self) -> None:
        """Raise ValueError for impossible numbers, or a scorer that scores no pairs."""
        if self.roots not in (1, 2) or self.most_roots < 0:
            raise ValueError("roots is 1 or 2, and most_roots at least 0")
        if self.scores not in ("vectors", "texts"):
            raise ValueError(f"scores is {self.scores!r}: vectors or texts")
        unknown = sorted(set(self.moved) - set(QUANTILES))
        if unknown:
            raise ValueError(
                f"moved: no threshold {unknown[0]!r}; there are {', '.join(QUANTILES)}"
            )
        needed = "text_scorer" if self.scores == "texts" else "scorer"
        if not hasattr(self.scorer, needed):
            kind = "texts" if self.scores == "texts" else "pairs"
            raise ValueError(f"scorer: {type(self.scorer).__name__} scores no {kind}")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question, its keywords, and what the scorer reads of a question."""
        hits = getattr(self.scorer, "hits", "")
        others = (name for name in self.scorer.reads if name != hits)
        return tuple(dict.fromkeys((*self.reads_, *others)))

    @property
    def writes(self) -> pa.Schema:
        """The pairs that were scored, the chapters that were searched, and the STUs found."""
        return pa.schema(
            [
                pa.field("pairs_scored", pa.int32()),
                pa.field("tree_trace", TREE_TRACE),
                pa.field(self.into, HITS),
            ]
        )

    def needs(self) -> tuple[str, ...]:
        """The tree and what the scorer needs."""
        return tuple(dict.fromkeys((self.tree, *self.scorer.needs())))

    def identity(self) -> dict[str, Any]:
        """The thresholds, and the scorer's own."""
        found = self.bounds()
        bounds = {} if found is None else spec(found)
        return {"thresholds": bounds, "scorer": self.scorer.identity()}

    def scorer_name(self) -> str:
        """Name and revision of the scorer, without its columns: `RerankBiEncoder@<fingerprint>`."""
        stated = {k: v for k, v in spec(self.scorer).items() if k not in ("hits", "into", "keep")}
        revision = fingerprint(stated, self.scorer.identity(), self.scores)
        return f"{type(self.scorer).__name__}@{revision}"

    def embedder(self) -> dict[str, Any]:
        """The name of the encoder whose vectors are scored; {} where texts are."""
        return embedder_name(self.encoder) if self.scores == "vectors" else {}

    def bounds(self) -> Thresholds | None:
        """The thresholds; None for none. Raises ValueError for another scorer's or encoder's."""
        found = self.set_to
        if found is None and self.thresholds:
            found = read_thresholds(self.thresholds, self.scorer_name(), self.embedder())
        if found is None or not self.moved:
            return found
        moved = {name: getattr(found, name) + by for name, by in self.moved.items()}
        return replace(found, **moved)

    def open(self, at: Place) -> Function:
        """Map the tree, and load the scorer."""
        bounds = self.bounds()
        scores = self.opened(at)

        def run(batch: pa.Table) -> pa.Table:
            found = _Searches(scores, batch, bounds)
            found.search(self.roots, self.most_roots)
            return with_columns(batch, pa.table(found.columns(), schema=self.writes))

        return run

    def opened(self, at: Place) -> TreeScores:
        """The tree with its scores of roots, BTUs and STUs."""
        forest = TreeForest(at.artifact(self.tree))
        pairs: Pairs = self.scorer.scorer(at)  # type: ignore[attr-defined]
        texts: Texts | None = None
        if self.scores == "texts":
            texts = self.scorer.text_scorer(at)  # type: ignore[attr-defined]
        return TreeScores(forest, pairs, texts)


@dataclass(frozen=True)
class TreeScores:
    """Scores of a tree's nodes for questions; NaN is refused."""

    forest: TreeForest
    pairs: Pairs
    texts: Texts | None

    def roots(self, batch: pa.Table) -> Floats:
        """The score of each root, its best title counting: (questions, roots)."""
        forest = self.forest
        if self.texts is None:
            titles = _matrix(batch, "keyword_vector") @ forest.title_vectors.T
        else:
            said = forest.roots["titles"].combine_chunks().flatten().to_pylist()
            words = [" ".join(each) for each in batch["keywords"].to_pylist()]
            pairs = zip(words, batch["text"].to_pylist(), strict=True)
            titles = np.array([self.texts(kw or text, said) for kw, text in pairs])
        found = np.full((batch.num_rows, forest.roots.num_rows), -np.inf)
        for title, root in enumerate(forest.title_root):
            found[:, root] = np.maximum(found[:, root], titles[:, title])
        return _checked(found)

    def btus(self, batch: pa.Table, rows: Ints, btus: Ints) -> Floats:
        """The score of each pair of a question (sorted) and a BTU: (pairs,)."""
        if self.texts is None:
            queries = _matrix(batch, "query_vector")[rows]
            vectors = self.forest.btu_vectors[btus]
            return _checked(np.einsum("ij,ij->i", queries, vectors).astype(np.float64))
        said = self.forest.btus["text"]
        found = np.zeros(len(btus))
        for row in np.unique(rows).tolist():
            mine = rows == row
            listed = said.take(pa.array(btus[mine])).to_pylist()
            found[mine] = self.texts(batch["text"][row].as_py(), listed)
        return _checked(found)

    def stus(self, batch: pa.Table, rows: Ints, stus: Ints) -> Floats:
        """The score of each pair of a question (sorted) and an STU: (pairs,)."""
        offsets = np.searchsorted(rows, np.arange(batch.num_rows + 1))
        ids = self.forest.stu_ids.take(pa.array(stus))
        return _checked(np.asarray(self.pairs(batch, ids, offsets), np.float64))


class _Searches:
    """The searches of a batch, one for each question, in lockstep."""

    def __init__(self, scores: TreeScores, batch: pa.Table, bounds: Thresholds | None) -> None:
        self.scores, self.batch, self.bounds = scores, batch, bounds
        size = batch.num_rows
        self.pairs = np.zeros(size, np.int32)
        self.trace: list[list[dict[str, Any]]] = [[] for _ in range(size)]
        self.found: list[tuple[Ints, Floats]] = [_NOTHING] * size
        self.held: list[list[tuple[Ints, Floats]]] = [[] for _ in range(size)]
        self.names = scores.forest.titles()

    def search(self, roots: int, most_roots: int) -> None:
        """Visit roots in turn until each question has found something."""
        if not self.batch.num_rows:
            return
        order = self._order(roots)
        active = np.arange(len(order))
        for turn in range(min(order.shape[1], 1 + most_roots)):
            self._visit(active, order[active, turn])
            active = np.array(
                [row for row in active if self.trace[row][-1]["outcome"] not in FOUND], np.int64
            )
            if not len(active):
                break
        for row in active.tolist():
            if self.held[row]:
                columns = zip(*self.held[row], strict=True)
                ids, values = (np.concatenate(each) for each in columns)
                self.found[row] = ids, values

    def _order(self, roots: int) -> Ints:
        """The roots by score, best first; of the first two the one with better BTUs leads."""
        scored = np.round(self.scores.roots(self.batch), SCORE_DECIMALS)
        order = np.argsort(-scored, axis=1, kind="stable")
        if roots == 1 or order.shape[1] < 2:
            return order
        rows = np.arange(len(order))
        means = [self._mean(rows, order[:, place]) for place in (0, 1)]
        swap = np.round(means[1], SCORE_DECIMALS) > np.round(means[0], SCORE_DECIMALS)
        order[swap, 0], order[swap, 1] = order[swap, 1], order[swap, 0].copy()
        return order

    def _mean(self, rows: Ints, roots: Ints) -> Floats:
        """The mean score of the BTUs of one root for each question (Eq. 3)."""
        first = self.scores.forest.first_btu
        btus, owner = flat_ranges(first[roots], first[roots + 1])
        return group_means(self.scores.btus(self.batch, rows[owner], btus), owner, len(rows))

    def _visit(self, active: Ints, roots: Ints) -> None:
        """Search one root for each active question (Eq. 4, 5)."""
        forest = self.scores.forest
        btus, owner = flat_ranges(forest.first_btu[roots], forest.first_btu[roots + 1])
        kept = np.ones(len(btus), bool)
        definite = np.zeros(len(active), bool)
        counts = np.zeros((2, len(active)), np.int64)
        if self.bounds is not None:
            values = self.scores.btus(self.batch, active[owner], btus)
            above = values > self.bounds.btu_definite
            candidate = ~above & (values > self.bounds.btu_candidate)
            counts = np.stack(
                [np.bincount(owner[each], minlength=len(active)) for each in (above, candidate)]
            )
            definite = counts[0] > 0
            kept = np.where(definite[owner], above, candidate)
            np.add.at(self.pairs, active[owner], 1)
        btus, owner = btus[kept], owner[kept]
        stus, btu = flat_ranges(forest.first_stu[btus], forest.first_stu[btus + 1])
        owner = owner[btu]
        values = self.scores.stus(self.batch, active[owner], stus)
        np.add.at(self.pairs, active[owner], 1)
        ends = np.searchsorted(owner, np.arange(len(active) + 1))
        for n, row in enumerate(active.tolist()):
            mine = slice(ends[n], ends[n + 1])
            outcome, chosen = self._outcome(values[mine], bool(definite[n]))
            found = stus[mine][chosen], values[mine][chosen]
            if outcome in FOUND:
                self.found[row] = found
            else:
                self.held[row].append(found)
            self.trace[row].append(
                {
                    "root": self.names[roots[n]],
                    "btu_definite": int(counts[0, n]),
                    "btu_candidate": int(counts[1, n]),
                    "stu_scored": int(ends[n + 1] - ends[n]),
                    "outcome": outcome,
                }
            )

    def _outcome(self, values: Floats, definite: bool) -> tuple[str, npt.NDArray[np.bool_]]:
        """The outcome of a root, and which of its scored STUs it returns."""
        every = np.ones(len(values), bool)
        if self.bounds is None:
            return "all", every
        if definite:
            return "definite_btu", every
        if (values > self.bounds.stu_definite).any():
            return "definite_stu", values > self.bounds.stu_definite
        if (values > self.bounds.stu_candidate).any():
            return "candidate", values > self.bounds.stu_candidate
        return "nothing", values > self.bounds.stu_uncertain

    def columns(self) -> list[pa.Array]:
        """The columns of SearchTree."""
        forest = self.scores.forest
        sizes = [len(ids) for ids, _ in self.found]
        places = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in self.found)])
        values = np.concatenate([np.zeros(0), *(scores for _, scores in self.found)])
        names, (keys,) = codes([forest.stu_ids.take(pa.array(places))])
        ranking = rank_scores(
            np.repeat(np.arange(len(sizes)), sizes), keys, values, decimals=SCORE_DECIMALS
        )
        return [
            pa.array(self.pairs, pa.int32()),
            pa.array(self.trace, TREE_TRACE),
            pack_ranking(ranking, names, len(sizes)),
        ]


_NOTHING: tuple[Ints, Floats] = (np.zeros(0, np.int64), np.zeros(0))


def _matrix(batch: pa.Table, column: str) -> npt.NDArray[np.float32]:
    vectors = batch[column].to_pylist()
    return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), -1)


def _checked(scores: Floats) -> Floats:
    if np.isnan(scores).any():
        raise ValueError("the scorer gave a score that is not a number")
    return scores
