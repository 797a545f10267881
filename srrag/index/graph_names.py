"""Names of the graph's nodes, found in questions word by word; every spelling is an alias."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from srrag.algo.graph_scores import segments
from srrag.algo.maxsim import take_ragged
from srrag.index.graph_layers import LayerReader, LayerWriter
from srrag.index.words import analyzer

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_ABBREVIATED = re.compile(r"^(?P<long>[^()]{4,})\((?P<short>[A-Za-z][\w/-]{1,11})\)$")


def spellings(name: str) -> tuple[str, ...]:
    """The name, and both halves of "long form (LF)"."""
    match = _ABBREVIATED.match(name.strip())
    return (name, match["long"].strip(), match["short"]) if match else (name,)


def word_key(word: str) -> int:
    """Hash a word to 64 bits."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class Aliases:
    """All spellings of all nodes: the node of each, and its distinct words as rows of `keys`."""

    nodes: Ints
    keys: npt.NDArray[np.uint64]
    words: sparse.csr_array  # (aliases, words), ones

    @classmethod
    def read(cls, names: Sequence[Sequence[str]]) -> Aliases:
        """Read the spellings of each node; equal sets of words of one node count once."""
        read = analyzer()
        nodes: list[int] = []
        terms: list[tuple[str, ...]] = []
        for node, given in enumerate(names):
            sets = {tuple(sorted(set(read.analyze(text)))) for text in given}
            for words in sorted(filter(None, sets)):
                nodes.append(node)
                terms.append(words)
        number = {word: 0 for words in terms for word in words}
        keys = np.array([word_key(word) for word in number], np.uint64)
        order = np.argsort(keys)
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        number = dict(zip(number, place.tolist(), strict=True))
        rows = np.repeat(np.arange(len(terms)), [len(words) for words in terms])
        columns = np.array([number[word] for words in terms for word in words], np.int64)
        shape = len(terms), len(keys)
        words_of = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
        return cls(np.array(nodes, np.int64), keys[order], words_of)

    def same_names(self) -> Ints:
        """The node that has the spelling of each alias first: (aliases,)."""
        first: dict[bytes, int] = {}
        found = np.empty(len(self.nodes), np.int64)
        bounds, columns = self.words.indptr, self.words.indices
        for alias, node in enumerate(self.nodes.tolist()):
            spelled = np.sort(columns[bounds[alias] : bounds[alias + 1]]).tobytes()
            found[alias] = first.setdefault(spelled, node)
        return found

    def prints(self) -> npt.NDArray[np.uint64]:
        """A fingerprint of each spelling: its node and its words, in any order."""
        by_word = self.words.tocsc()
        return _prints(self.nodes, self.keys, by_word.indices, by_word.indptr)

    def ordered(self, former: npt.NDArray[np.uint64]) -> Aliases | None:
        """The same spellings, the former ones first, in their order; None if one is gone."""
        order = in_former_order(self.prints(), former)
        if order is None:
            return None
        return Aliases(self.nodes[order], self.keys, sparse.csr_array(self.words[order]))

    def write(self, writer: LayerWriter, shown: sparse.csr_array) -> None:
        """Write the spellings by word; `shown` (windows, nodes) marks what each window mentions.

        A word weighs ln(1 + (W − w + ½) / (w + ½)), as in BM25, with w of W windows that mention a
        node with this word.
        """
        of_node = sparse.csr_array(
            (np.ones(len(self.nodes), np.float32), (self.nodes, np.arange(len(self.nodes)))),
            shape=(shown.shape[1], len(self.nodes)),
        )
        held = sparse.csr_array(shown @ (of_node @ self.words))
        windows = np.bincount(held.indices, minlength=len(self.keys))
        weight = np.log1p((shown.shape[0] - windows + 0.5) / (windows + 0.5)).astype(np.float32)
        writer.rows("aliases.nodes", self.nodes.astype(np.int32), "aliases")
        for number, rows in enumerate(writer.ranges("aliases")):
            by_word = self.words[rows].tocsc()
            by_word.sort_indices()
            used = np.flatnonzero(np.diff(by_word.indptr))
            writer.put("words.keys", number, self.keys[used])
            writer.put("words.weights", number, weight[used])
            writer.put("words.aliases", number, by_word.indices.astype(np.int32))
            offsets = np.append(0, by_word.indptr[1:][used])
            writer.put("words.aliases.offsets", number, offsets.astype(np.int64))


def _prints(
    nodes: np.ndarray, keys: npt.NDArray[np.uint64], aliases: np.ndarray, offsets: np.ndarray
) -> npt.NDArray[np.uint64]:
    """Fingerprints of spellings from the node of each, and from the spellings of each key."""
    found = np.zeros(len(nodes), np.uint64)
    mixed = (keys ^ keys >> np.uint64(29)) * _MIX
    mixed ^= mixed >> np.uint64(32)  # sums of plain keys could meet
    np.add.at(found, aliases, np.repeat(mixed, np.diff(offsets)))
    return found ^ nodes.astype(np.uint64) * _MIX


def in_former_order(
    now: npt.NDArray[Any], former: npt.NDArray[Any]
) -> npt.NDArray[np.int64] | None:
    """The rows of `now`, distinct values, so that those of `former` come first, in their order.

    None if one of them is gone.
    """
    by_value = np.argsort(now, kind="stable")
    place = np.searchsorted(now[by_value], former)
    inside = place < len(now)
    if not inside.all() or (now[by_value[place]] != former).any():
        return None
    new = np.ones(len(now), np.bool_)
    new[by_value[place]] = False
    return np.concatenate([by_value[place], np.flatnonzero(new)])


@dataclass(frozen=True)
class Linked:
    """The aliases that share words with a question.

    `words` (m,) numbers the question's words, `nodes` (m,) holds the node of the alias, `fit` (m,)
    the share of the alias's weight that the question holds. `weights` are those of the words.
    """

    words: Ints
    nodes: Ints
    fit: Floats
    weights: Floats
    links: Floats
    """Of each alias entry: share of the question's weight that the alias holds, times its fit."""


@dataclass(frozen=True)
class _Words:
    """The words of one layer of spellings: sorted keys, weights, and the spellings of each."""

    keys: npt.NDArray[np.uint64]
    weights: Floats
    aliases: npt.NDArray[np.int32]
    offsets: Ints


class GraphNames:
    """The opened names."""

    def __init__(self, layers: LayerReader) -> None:
        """Map the arrays."""
        names = ("words.keys", "words.weights", "words.aliases", "words.aliases.offsets")
        self._layers = [_Words(*arrays) for arrays in zip(*map(layers.each, names), strict=True)]
        self._starts = [0, *(layer.aliases for layer in layers.layers)]
        self._nodes = layers.rows("aliases.nodes")
        self._analyzer = analyzer()

    @cached_property
    def _totals(self) -> Floats:
        """The weight of all words of each spelling."""
        found = np.zeros(len(self._nodes), np.float32)
        for start, words in zip(self._starts, self._layers, strict=False):
            weights = np.repeat(words.weights, np.diff(words.offsets))
            np.add.at(found, words.aliases + start, weights)
        return found

    def prints(self) -> npt.NDArray[np.uint64]:
        """The fingerprints of all spellings, as `Aliases` has them."""
        bounds = itertools.pairwise(self._starts)
        found = [
            _prints(self._nodes[start:stop], words.keys, words.aliases, words.offsets)
            for (start, stop), words in zip(bounds, self._layers, strict=True)
        ]
        return np.concatenate(found)

    def link(self, text: str) -> Linked:
        """Find the aliases that share a word with the text."""
        words = dict.fromkeys(self._analyzer.analyze(text))
        keys = np.array([word_key(word) for word in words], np.uint64)
        weights = np.zeros(len(keys), np.float32)
        found: list[tuple[Ints, Ints]] = []
        for start, layer in zip(self._starts, self._layers, strict=False):
            rows = np.searchsorted(layer.keys, keys)
            known = np.flatnonzero(rows < len(layer.keys))
            known = known[layer.keys[rows[known]] == keys[known]]
            weights[known] = layer.weights[rows[known]]
            places, ends = take_ragged(layer.offsets, rows[known])
            found.append((np.repeat(known, np.diff(ends)), layer.aliases[places] + start))
        word, entries = (np.concatenate(each).astype(np.int64) for each in zip(*found, strict=True))
        held_words = np.flatnonzero(weights > 0)
        weights, word = weights[held_words], np.searchsorted(held_words, word)
        alias, inverse = np.unique(entries, return_inverse=True)
        held = np.bincount(inverse, weights[word], minlength=len(alias))
        fit = held / np.maximum(self._totals[alias], 1e-9)
        links = fit * held / max(float(weights.sum()), 1e-9)
        nodes = self._nodes[alias[inverse]].astype(np.int64)
        return Linked(
            word, nodes, fit[inverse].astype(np.float32), weights, links[inverse].astype(np.float32)
        )


def inverted(members: np.ndarray, offsets: Ints, num_members: int) -> tuple[np.ndarray, Ints]:
    """Turn "members of each owner" into "owners of each member", with offsets."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return segments(members.astype(np.int64), owner, num_members)
