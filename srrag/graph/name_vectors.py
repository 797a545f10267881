"""Vectors of names: the mean of their words' vectors, each word encoded once.

The number of names grows with the corpus, that of their words by Heaps' law: over 1,723 abstracts
of trials, names are 45 % of the tokens of the text and their words 10 %, a share that falls as the
corpus grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.step import Place

WORDS_FILE = "name_words.parquet"
WORD_VECTORS = "name_words.npy"
_BATCH = 8192
_BETWEEN = r"[^\pL\pN'-]+"
_NO_TOPIC = """a after an and are as at be before between by during for from in is no not of on or
than the to versus vs with within without"""


@dataclass(frozen=True, slots=True)
class WordVectors:
    """Distinct words and their vectors, float16 (words, dim), in the same order."""

    texts: pa.Array
    vectors: np.ndarray

    @classmethod
    def none(cls, dim: int = 0) -> WordVectors:
        """No word."""
        return cls(pa.array([], pa.string()), np.zeros((0, dim), np.float16))

    @classmethod
    def read(cls, folder: Path) -> WordVectors:
        """Read what `write` wrote."""
        texts = pq.read_table(folder / WORDS_FILE)["word"].combine_chunks()
        return cls(texts, np.load(folder / WORD_VECTORS, mmap_mode="r", allow_pickle=False))

    def write(self, folder: Path) -> None:
        """Write `name_words.parquet` and `name_words.npy`."""
        pq.write_table(pa.table({"word": self.texts}), folder / WORDS_FILE)
        np.save(folder / WORD_VECTORS, self.vectors)


def encode_names(
    names: pa.Array, encoder: Encoder, at: Place, known: WordVectors, *, whole: bool = False
) -> tuple[np.ndarray, WordVectors]:
    """Unit vectors of names, float16 (names, dim), and the words they were computed from.

    A name's vector is the mean of its words' (a form of Arora et al. 2017 with weights of 1, and 0
    for words without a topic, such as "of"); with `whole` a name is one word. Words are encoded in
    sorted order, so that batches are the same in every run; `known` ones are not encoded again, and
    only words of these names are returned.
    """
    distinct = pc.unique(names)
    rows, texts = _whole(distinct) if whole else _words(distinct)
    spoken = pc.unique(texts)
    spoken = spoken.take(pc.sort_indices(spoken))
    words = _encoded(spoken, encoder, at, known)
    columns = pc.index_in(texts, value_set=spoken).to_numpy(zero_copy_only=False)
    entries = np.ones(len(rows), np.float32), (rows, columns)
    of_names = sparse.csr_array(
        sparse.coo_array(entries, shape=(len(distinct), len(spoken)), dtype=np.float32)
    )
    # This takes half the memory of float32; only a batch of rows at a time is widened.
    found = np.empty((len(distinct), words.vectors.shape[1]), np.float16)
    for begin in range(0, len(distinct), _BATCH):
        some = of_names[begin : begin + _BATCH]
        used, places = np.unique(some.indices, return_inverse=True)
        shape = some.shape[0], len(used)
        narrow = sparse.csr_array((some.data, places, some.indptr), shape=shape)
        total = narrow @ words.vectors[used].astype(np.float32)
        length = np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
        found[begin : begin + len(total)] = total / length
    named = pc.index_in(names, value_set=distinct).to_numpy(zero_copy_only=False)
    return found[named], words


def _encoded(spoken: pa.Array, encoder: Encoder, at: Place, known: WordVectors) -> WordVectors:
    """The vectors of words, those that are known copied."""
    held = pc.index_in(spoken, value_set=known.texts)
    new = pc.is_null(held)
    fresh = spoken.filter(new).to_pylist()
    if not fresh and known.vectors.shape[1]:  # no names and none known: the model tells the width
        return WordVectors(spoken, known.vectors[held.to_numpy(zero_copy_only=False)])
    model = load(encoder, at.device, at.threads)
    vectors = np.empty((len(spoken), model.dim), np.float16)
    is_new = new.to_numpy(zero_copy_only=False)
    if len(known.texts):
        vectors[~is_new] = known.vectors[held.drop_null().to_numpy(zero_copy_only=False)]
    places = np.flatnonzero(is_new)
    for begin in range(0, len(fresh), _BATCH):
        vectors[places[begin : begin + _BATCH]] = model.encode(fresh[begin : begin + _BATCH])
    return WordVectors(spoken, vectors)


def _whole(names: pa.Array) -> tuple[np.ndarray, pa.Array]:
    return np.arange(len(names)), names


def _words(names: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The row of a name and one of its words, for each word that has a topic.

    A name without any is its own word.
    """
    split = pc.split_pattern_regex(pc.utf8_lower(names), _BETWEEN)
    rows = pc.list_parent_indices(split).to_numpy()
    words = pc.utf8_trim(pc.list_flatten(split), "'-")
    empty = pc.is_in(words, value_set=pa.array(["", *_NO_TOPIC.split()]))
    kept = ~empty.to_numpy(zero_copy_only=False)
    bare = np.setdiff1d(np.arange(len(names)), rows[kept])
    texts = pa.concat_arrays([words.filter(pa.array(kept)), names.take(pa.array(bare))])
    return np.concatenate([rows[kept], bare]), texts
