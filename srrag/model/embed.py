"""Sentence and token embeddings from one forward pass."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from srrag.model.encoder import (
    COLBERT,
    PACKAGED_MODEL,
    Encoder,
    Role,
    Tokens,
    load_tokenizer,
    model_path,
    once,
)
from srrag.model.passes import budgeted, in_passes, one_thread, use_threads

if TYPE_CHECKING:
    from srrag.model.network import Network, TorchHidden
    from srrag.model.numpy_bert import NumpyBert, NumpyHidden

    Hidden: TypeAlias = TorchHidden | NumpyHidden

BATCH_TOKENS = {"cpu": 1024, "gpu": 32_768}
"""Tokens of a pass: what caches hold, and what keeps a GPU busy between two launches."""

LIGHT_TEXTS = 16
"""Number of texts that NumPy encodes before torch is imported."""


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Unit-length token embeddings of many texts, as int8 with a scale per token.

    Token t is `values[t] * scale[t]`; text i owns tokens `offsets[i]:offsets[i + 1]`. `cut` marks
    the texts that were longer than the encoder reads.
    """

    values: np.ndarray  # int8 (tokens, dim)
    scale: np.ndarray  # float16 (tokens,)
    offsets: np.ndarray  # int64 (texts + 1,)
    cut: np.ndarray  # bool (texts,)


class LoadedEncoder:
    """An encoder in memory; its methods may be called from several threads.

    Within `few_texts`, where nothing has imported torch, the packaged model encodes its first
    `LIGHT_TEXTS` texts in NumPy. The vectors of the two agree to 1e-6.
    """

    def __init__(self, encoder: Encoder, device: str) -> None:
        self.encoder = encoder
        self.device = device
        self._reading = threading.Lock()
        self._towers: tuple[Network, Network] | None = None
        self._light = _light(encoder, device)
        self.dim = self._light.dim if self._light else self._read()[0].dim
        self.tokenizer = load_tokenizer(encoder)
        self.num_texts = 0
        self.num_cut = 0
        self._count_lock = threading.Lock()

    def _read(self) -> tuple[Network, Network]:
        """The networks of passages and of queries, read once."""
        from srrag.model.network import read_network

        with self._reading:
            if self._towers is None:
                own = read_network(self.encoder, self.device)
                self._towers = own, self._tower(own) if self.encoder.query_model else own
                one_thread()
            return self._towers

    def _tower(self, own: Network) -> Network:
        """Read the model of the queries; raises ValueError if the two do not fit each other."""
        from srrag.model.network import read_network

        tower = self.encoder.tower
        network, words = read_network(tower, self.device), load_tokenizer(tower)
        passages = load_tokenizer(self.encoder)
        if network.dim != own.dim or not np.array_equal(words.content, passages.content):
            raise ValueError(
                f"query_model {tower.model!r} has another tokenizer or length of vectors than "
                f"model {self.encoder.model!r}"
            )
        return network

    def encode(
        self, texts: Sequence[str], role: Role = "passage", batch_tokens: int | None = None
    ) -> np.ndarray:
        """Unit-length sentence vectors, float32 (texts, dim)."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)

        def read(rows: np.ndarray, ids: list[np.ndarray], hidden: Hidden) -> None:
            vectors[rows] = hidden.pooled()

        self._run(self._tokenise(texts, role).ids, batch_tokens, role, read)
        return vectors

    def encode_tokens(
        self, texts: Sequence[str], role: Role = "passage", batch_tokens: int | None = None
    ) -> tuple[np.ndarray, TokenVectors]:
        """Sentence vectors as `encode`, with the token embeddings of the same forward pass.

        Special tokens and tokens of punctuation alone are dropped; stop words stay.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        pieces: list[tuple[np.ndarray, np.ndarray]] = [_NO_TOKENS] * len(texts)
        widths = {0}
        found = self._tokenise(texts, role)

        def read(rows: np.ndarray, ids: list[np.ndarray], hidden: Hidden) -> None:
            vectors[rows] = hidden.pooled()
            keep = self.tokenizer.is_content(np.concatenate(ids))
            values, scale = hidden.tokens(keep)
            widths.add(values.shape[1])
            starts = np.cumsum([0, *(len(text) for text in ids[:-1])])
            ends = np.cumsum(np.add.reduceat(keep, starts, dtype=np.int64))[:-1]
            parts = zip(np.split(values, ends), np.split(scale, ends), strict=True)
            for row, part in zip(rows, parts, strict=True):
                pieces[row] = part

        self._run(found.ids, batch_tokens, role, read)
        return vectors, join_tokens(pieces, max(widths), found.cut)

    def _tokenise(self, texts: Sequence[str], role: Role) -> Tokens:
        prefix = self.encoder.query_prefix if role == "query" else self.encoder.passage_prefix
        tokens = self.tokenizer.tokenise([prefix + text for text in texts] if prefix else texts)
        with self._count_lock:
            self.num_texts += len(texts)
            self.num_cut += int(tokens.cut.sum())
        return tokens

    def _run(
        self,
        all_ids: Sequence[np.ndarray],
        batch_tokens: int | None,
        role: Role,
        read: Callable[[np.ndarray, list[np.ndarray], Hidden], None],
    ) -> None:
        """Call `read` with some rows, the ids of each and their token embeddings, until all had it.

        Texts go longest first, at most `batch_tokens` tokens (or one text) a pass; on a CPU
        each thread has passes of its own.
        """
        network = self._of(role)
        budget = batch_tokens or BATCH_TOKENS["cpu" if self.device == "cpu" else "gpu"]
        passes = list(budgeted([len(ids) for ids in all_ids], budget))

        def one(rows: np.ndarray) -> None:
            start = 0
            for hidden in network.run([all_ids[row] for row in rows]):
                some = rows[start : start + len(hidden)]
                start += len(hidden)
                read(some, [all_ids[row] for row in some], hidden)

        in_passes(passes, one, side_by_side=self.device == "cpu")

    def _of(self, role: Role) -> Network | NumpyBert:
        few = _few_texts[0] and self.num_texts <= LIGHT_TEXTS and not _has_torch()
        if self._light is not None and few:
            return self._light
        passages, queries = self._read()
        self._light = None
        return queries if role == "query" else passages


def _light(encoder: Encoder, device: str) -> NumpyBert | None:
    """The packaged model without torch, if this is that model and torch is not yet imported."""
    plain = (
        _few_texts[0]
        and encoder.model == PACKAGED_MODEL
        and encoder.backend == "torch"
        and device == "cpu"
    )
    if not plain or encoder.query_model or encoder.pooling not in ("", "mean") or _has_torch():
        return None
    from srrag.model.numpy_bert import read_numpy_bert

    folder = Path(model_path(encoder.model))
    return read_numpy_bert(folder) if (folder / "model.safetensors").is_file() else None


def _has_torch() -> bool:
    return "torch" in sys.modules


_NO_TOKENS = (np.zeros((0, 0), dtype=np.int8), np.zeros(0, dtype=np.float16))
_few_texts = [False]


@contextmanager
def few_texts() -> Iterator[None]:
    """Code in this context encodes a question or two, too few to import torch for.

    Do not store or compare its vectors: elsewhere torch computes them, and the last bits differ.
    """
    _few_texts[0] = True
    try:
        yield
    finally:
        _few_texts[0] = False


def load(encoder: Encoder, device: str = "cpu", threads: int | None = None) -> LoadedEncoder:
    """Return the encoder in memory, read once per process and device.

    `threads` is how many passes run at a time on a CPU, in the whole process; each then has one
    of torch's threads. Raises ValueError for a model that
    cannot be read, or a backend that cannot run it.
    """
    use_threads(threads)
    return _loaded(encoder, device)


@once
def _loaded(encoder: Encoder, device: str) -> LoadedEncoder:
    if encoder.backend != COLBERT:
        return LoadedEncoder(encoder, device)
    from srrag.model.colbert import LoadedColbert

    return LoadedColbert(encoder, device)


def quantise_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round float (n, dim) rows to int8 with a float16 scale per row; error ≤ scale / 2."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    # Rounded up to float16 first, so that dividing by the stored scale never leaves int8.
    scale = np.nextafter((peak / 127).astype(np.float16), np.float16(np.inf))
    return np.rint(rows / scale[:, None].astype(np.float32)).astype(np.int8), scale


def join_tokens(
    pieces: Sequence[tuple[np.ndarray, np.ndarray]], width: int, cut: np.ndarray
) -> TokenVectors:
    """Concatenate the texts' tokens in row order."""
    offsets = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(scale) for _, scale in pieces], out=offsets[1:])
    values = np.empty((offsets[-1], width), dtype=np.int8)
    scales = np.empty(offsets[-1], dtype=np.float16)
    for i, (value, scale) in enumerate(pieces):
        values[offsets[i] : offsets[i + 1]] = value
        scales[offsets[i] : offsets[i + 1]] = scale
    return TokenVectors(values, scales, offsets, cut)


def check_similar(encoder: Encoder) -> str:
    """Check on the CPU that similar texts are nearer than unlike ones; raises ValueError if not."""
    model = load(encoder, device="cpu", threads=1)
    vectors = model.encode(["ankle sprain", "sprained ankle", "tax law"])
    near, far = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    if not near > far:
        raise ValueError(f"{encoder.model}: similar texts are not nearer ({near:.2f}, {far:.2f})")
    return f"{encoder.model}: {vectors.shape[1]} dimensions, similar {near:.2f} > unlike {far:.2f}"
