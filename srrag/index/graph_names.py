"""Names of the graph's nodes, found in questions word by word; every spelling is an alias."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from srrag.algo.graph_scores import segments
from srrag.algo.maxsim import take_ragged
from srrag.index.graph_walk import read_array, read_ragged, write_ragged
from srrag.index.words import analyzer

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

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

    def write(self, out: Path, shown: sparse.csr_array) -> None:
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
        by_word = self.words.tocsc()
        by_word.sort_indices()
        np.save(out / "aliases.nodes.npy", self.nodes.astype(np.int32))
        np.save(out / "words.keys.npy", self.keys)
        np.save(out / "words.weights.npy", weight)
        offsets = by_word.indptr.astype(np.int64)
        write_ragged(by_word.indices.astype(np.int32), offsets, out, "words.aliases")


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


class GraphNames:
    """The opened names."""

    def __init__(self, folder: Path) -> None:
        """Map the arrays."""
        self._keys, self._weights = (read_array(folder, f"words.{n}") for n in ("keys", "weights"))
        self._aliases, self._offsets = read_ragged(folder, "words.aliases")
        self._nodes = read_array(folder, "aliases.nodes")
        self._analyzer = analyzer()

    @cached_property
    def _totals(self) -> Floats:
        """The weight of all words of each spelling."""
        found = np.zeros(len(self._nodes), np.float32)
        np.add.at(found, self._aliases, np.repeat(self._weights, np.diff(self._offsets)))
        return found

    def link(self, text: str) -> Linked:
        """Find the aliases that share a word with the text."""
        words = dict.fromkeys(self._analyzer.analyze(text))
        keys = np.array([word_key(word) for word in words], np.uint64)
        rows = np.searchsorted(self._keys, keys[np.isin(keys, self._keys)])
        weights = self._weights[rows]
        places, ends = take_ragged(self._offsets, rows)
        word = np.repeat(np.arange(len(rows)), np.diff(ends))
        alias, inverse = np.unique(self._aliases[places].astype(np.int64), return_inverse=True)
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
