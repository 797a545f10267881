"""Fuse all channels by learnt weights of named features, before any cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.betr import GRADES
from srrag.algo.classification import question_fold
from srrag.core.hits import Offsets, best_places, codes, unpack_hits
from srrag.core.provenance import Fitted
from srrag.core.schema import HITS
from srrag.core.standing import counted_as
from srrag.core.step import Function, Place, Step
from srrag.core.units import Units, open_units
from srrag.index.opened import open_sparse
from srrag.index.tokens import TokenIndex
from srrag.index.words import token_weights as rarity_of
from srrag.model.encoder import Encoder
from srrag.rerank.feature_weights import PACKAGED, FeatureWeights, read_weights_file
from srrag.rerank.maxsim import (
    QuestionTokens,
    channel_scores,
    late_scores,
    question_tokens,
    token_weights,
)
from srrag.rerank.reranker import rank_hits, study_numbers

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

COMPUTED = ("dense", "maxsim")
"""Features that are computed for every candidate from the stored vectors."""


@dataclass(frozen=True)
class Candidates:
    """The union of all channels' finds: flat over questions, with `offsets` (questions + 1)."""

    ids: pa.Array
    offsets: Offsets
    x: Floats
    """The features of each candidate, (candidates, features), in the order of the step's names."""
    documents: Ints
    """A number for the document of each candidate."""
    grades: Ints
    """The rank of each candidate's grade, A = 0 … E = 4."""

    @property
    def rows(self) -> Ints:
        """The question of each candidate."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(frozen=True, kw_only=True)
class FuseFeatures(Step):
    """Rank every window that a channel found by r = Σ w·x + u_grade over named features.

    `scores` maps a feature to the column of hits that holds it, or to a channel of a column of
    finds, as `found.sparse` (its best score over tracks and rounds): 0 where the channel did not
    find the window. `dense` (the cosine with the question) and `maxsim` (Eq. 15 of sr-rag, tokens
    weighed by the rarity of their words, their mean) are computed for every candidate. x is the
    window's feature plus `document` times that of the best window of its document. Candidates are
    the windows in all columns of `hits`.

    With `rounds`, the later questions of iterative retrieval count too: a window has its best
    cosine and MaxSim over the questions that were searched for.

    With `grades` the biases u of the file count; leave it off within `RerankBETR`, which adds its
    own. `model` is a file of `srrag fit_betr features=…`, "" the packaged one. It holds a fit for
    each set of features that it was asked for; weights of another embedder are refused.

    With `cross_fitted`, a question is ranked by weights that were fitted without its fold (by its
    words), so that it may be one of those that the file was fitted to.
    """

    hits: tuple[str, ...] = ("hits_fused", "hits_sparse")
    scores: Mapping[str, str] = field(default_factory=lambda: {"sparse": "hits_sparse"})
    computed: tuple[str, ...] = COMPUTED
    document: float = 1.0
    grades: bool = False
    cross_fitted: bool = False
    rounds: str = ""
    into: str = "hits"
    model: str = field(default="", compare=False, metadata={"identity": False})
    encoder: Encoder = field(default_factory=Encoder)
    index: str = "tokens"
    rarity: str = "sparse"
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError for features that do not exist, no candidates, or a wrong `document`."""
        for name in self.computed:
            if name not in COMPUTED:
                raise ValueError(f"computed: {name!r} is not one of {', '.join(COMPUTED)}")
        if not self.hits or not self.names:
            raise ValueError("hits and features: at least one of each is needed")
        if not 0 <= self.document < math.inf:
            raise ValueError(f"document is {self.document}: a number of at least 0")

    @property
    def names(self) -> tuple[str, ...]:
        """The features, sorted."""
        return tuple(sorted({*self.scores, *self.computed}))

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The candidates, the scores, and the question's vectors."""
        vectors = ("query_vector",) if "dense" in self.computed else ()
        tokens = ("query_tokens", "query_token_scales", "query_token_weights")
        late = tokens if "maxsim" in self.computed else ()
        rounds = (self.rounds,) if self.rounds else ()
        scores = (column.partition(".")[0] for column in self.scores.values())
        text = ("text",) if self.cross_fitted else ()
        return tuple(dict.fromkeys((*self.hits, *scores, *vectors, *late, *rounds, *text)))

    @property
    def writes(self) -> pa.Schema:
        """The ranking of all candidates."""
        return pa.schema([pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The vectors, the units for documents and grades, and word frequencies for rounds."""
        return (self.index, self.units, *([self.rarity] if self.rounds else []))

    def identity(self) -> dict[str, Any]:
        """The weights."""
        found = self.weights()
        stated = self._stated(found)
        folds = [self._stated(each) for each in found.folds] if self.cross_fitted else []
        return stated | ({"folds": folds} if folds else {})

    def _stated(self, found: FeatureWeights) -> dict[str, Any]:
        u = {"u": list(found.u)} if self.grades else {}
        return {"weights": dict(sorted(found.weights.items())), **u}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions that the weights were fitted to; those of other folds are not theirs."""
        return () if self.cross_fitted else (self.weights().fitted,)

    def weights(self) -> FeatureWeights:
        """Read the fit to these features; raises ValueError in one line that names the file."""
        return read_weights_file(self.model, self.names, self.encoder)

    def open(self, at: Place) -> Function:
        """Read the weights and map the indexes."""
        found = self.weights()
        if self.cross_fitted and not found.folds:
            raise ValueError(f"{self.model or PACKAGED}: it holds no weights of folds")
        every = found.folds if self.cross_fitted else (found,)
        weights = np.array([[each.weights[name] for name in self.names] for each in every])
        u = np.array([each.u for each in every]) * self.grades
        gather = self.gatherer(at)

        def run(batch: pa.Table) -> pa.Table:
            some = gather(batch)
            asked = map(question_fold, batch["text"].to_pylist() if self.cross_fitted else ())
            fold = np.array([*asked] or [0] * batch.num_rows, np.int64)[some.rows]
            joined = self.joined(some, (some.x * weights[fold]).sum(axis=1))
            score = (joined * weights[fold]).sum(axis=1) + u[fold, some.grades]
            hits = rank_hits(some.ids, score, some.offsets)
            return batch.append_column(self.writes.field(0), hits)

        return run

    def joined(self, some: Candidates, score: Floats) -> Floats:
        """Each candidate's features plus `document` times those of its document's best window."""
        return some.x + self.document * some.x[best_places(score, some.rows, some.documents)]

    def gatherer(self, at: Place) -> Callable[[pa.Table], Candidates]:
        """Map the indexes and return the function that computes the features."""
        index, units = TokenIndex(at.artifact(self.index)), open_units(at, self.units)
        later = self._later(at) if self.rounds else None

        def gather(batch: pa.Table) -> Candidates:
            ids, offsets = _union([batch[name] for name in self.hits])
            columns: dict[str, Floats] = {}
            for name, column in self.scores.items():
                columns[name] = channel_scores(ids, offsets, _channel(batch, column))
            asked = [_questions(batch, self.computed, index)]
            asked += later(batch) if later else []
            for some in asked:
                for name, values in _computed(some, self.computed, ids, offsets, index).items():
                    columns[name] = np.maximum(columns[name], values) if name in columns else values
            x = np.stack([columns[name] for name in self.names], axis=1)
            return Candidates(ids, offsets, x, *_told(units, ids))

        return gather

    def _later(self, at: Place) -> Callable[[pa.Table], list[_Asked]]:
        """The questions of the later rounds, encoded: one _Asked for each round after the first."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)
        index = open_sparse(at.artifact(self.rarity))

        def encode(batch: pa.Table) -> list[_Asked]:
            lists = [[each["question"] for each in row] for row in batch[self.rounds].to_pylist()]
            found = []
            for number in range(1, max(map(len, lists), default=0)):
                texts = {row: each[number] for row, each in enumerate(lists) if len(each) > number}
                made = _Asked({}, {}, {})
                for row, text in texts.items():
                    (vector,), tokens = model.encode_tokens([text], "query")
                    made.vectors[row] = vector
                    made.tokens[row] = QuestionTokens(
                        tokens.values, tokens.scale.astype(np.float32)
                    )
                    asked = self.encoder.query_prefix + text  # as `encode_tokens` takes it
                    (made.weights[row],) = rarity_of([asked], model.tokenizer, index)
                found.append(made)
            return found

        return encode


@dataclass(frozen=True)
class _Asked:
    """A question for some rows: sentence vector, token vectors and the weights of the tokens."""

    vectors: dict[int, npt.NDArray[np.float32]]
    tokens: dict[int, QuestionTokens]
    weights: dict[int, npt.NDArray[np.float32] | None]


def _questions(batch: pa.Table, computed: tuple[str, ...], index: TokenIndex) -> _Asked:
    """The questions as `EncodeQuestions` and `WeighTokens` wrote them."""
    found = _Asked({}, {}, {})
    if "dense" in computed:
        rows = enumerate(batch["query_vector"])
        found.vectors.update({row: np.frombuffer(v.as_py(), np.float32) for row, v in rows})
    if "maxsim" in computed:
        found.tokens.update(enumerate(question_tokens(batch, index.dimension)))
        found.weights.update(enumerate(token_weights(batch, "query_token_weights")))
    return found


def _computed(
    asked: _Asked,
    computed: tuple[str, ...],
    ids: pa.Array,
    offsets: Offsets,
    index: TokenIndex,
) -> dict[str, Floats]:
    """Cosine and mean MaxSim of each candidate with its question, -inf for rows without one."""
    found = {name: np.full(len(ids), -np.inf) for name in computed}
    for row in sorted({*asked.vectors, *asked.tokens}):
        some = slice(int(offsets[row]), int(offsets[row + 1]))
        listed, ends = ids[some], np.array([0, some.stop - some.start])
        if "dense" in computed:
            found["dense"][some] = index.take_vectors(listed.to_pylist()) @ asked.vectors[row]
        if "maxsim" in computed:
            weights = [asked.weights[row]]
            late = late_scores([asked.tokens[row]], listed, ends, index, mean=True, weights=weights)
            found["maxsim"][some] = late
    return found


def _union(columns: list[pa.ChunkedArray]) -> tuple[pa.Array, Offsets]:
    """Every window that a column of hits holds, once a question, in the order of their ids."""
    unpacked = [unpack_hits(column) for column in columns]
    names, keys = codes([ids for ids, _, _ in unpacked])
    rows = [np.repeat(np.arange(len(ends) - 1), np.diff(ends)) for _, _, ends in unpacked]
    pairs = np.unique(np.concatenate(rows) * max(1, len(names)) + np.concatenate(keys))
    row, key = np.divmod(pairs, max(1, len(names)))
    offsets = np.searchsorted(row, np.arange(len(unpacked[0][2])))
    return names.take(pa.array(key)), offsets.astype(np.int64)


def _channel(batch: pa.Table, column: str) -> tuple[pa.Array, npt.NDArray[Any], Offsets]:
    """Ids, scores and offsets of a column of hits, or of a channel of finds, each window once."""
    name, _, channel = column.partition(".")
    return _finds(batch[name], channel) if channel else unpack_hits(batch[name])


def _finds(column: pa.ChunkedArray, channel: str) -> tuple[pa.Array, npt.NDArray[Any], Offsets]:
    """The windows that a channel found, each with its best score."""
    lists = column.combine_chunks()
    flat, owner = lists.flatten(), np.asarray(pc.list_parent_indices(lists), np.int64)
    mine = pc.equal(pc.struct_field(flat, "channel"), channel)
    owner = owner[np.asarray(mine)]
    told = pc.struct_field(flat, "score")
    names, (keys,) = codes([pc.struct_field(flat, "unit_id").filter(mine)])
    pairs, inverse = np.unique(owner * max(1, len(names)) + keys, return_inverse=True)
    best = np.full(len(pairs), -np.inf)
    np.maximum.at(best, inverse, np.asarray(told.filter(mine), np.float64))
    row, key = np.divmod(pairs, max(1, len(names)))
    return names.take(pa.array(key)), best, np.searchsorted(row, np.arange(len(lists) + 1))


def _told(units: Units, ids: pa.Array) -> tuple[Ints, Ints]:
    """The number of each window's document, and the rank of its grade."""
    grades = counted_as(units.take(ids.to_pylist(), ("grade",))["grade"])
    ranks = pc.index_in(grades, value_set=pa.array(list(GRADES)))
    return study_numbers(units, ids), np.asarray(ranks, np.int64)
