"""The packaged encoder in NumPy, in float32: it reads a question before torch could be imported.

It computes what `PackedBert` does (srrag/model/network.py), slower, but importing torch takes as
long as a hundred questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from srrag.model.embed import quantise_rows

Floats = npt.NDArray[np.float32]
Map = tuple[Floats, Floats]
"""Weight, (in, out) of a linear map or (width,) of a norm, and bias."""

_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_SLOPE = 0.3275911


@dataclass(frozen=True, slots=True)
class NumpyHidden:
    """The token embeddings of texts of one length, float32 (texts, length, dim)."""

    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def pooled(self) -> Floats:
        """The mean over each text's tokens, of unit length: (texts, dim)."""
        return _unit(self.values.mean(1))

    def tokens(self, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some tokens' embeddings, of unit length, as `quantise_rows` rounds them."""
        return quantise_rows(_unit(self.values.reshape(-1, self.values.shape[2])[keep]))


@dataclass(frozen=True)
class NumpyLayer:
    """One transformer block."""

    query_key_value: Map
    attention_out: Map
    attention_norm: Map
    widen: Map
    narrow: Map
    out_norm: Map


@dataclass(frozen=True)
class NumpyBert:
    """A BERT with mean pooling, over texts of one length at a time."""

    words: Floats
    positions: Floats
    embedding_norm: Map
    layers: tuple[NumpyLayer, ...]
    num_heads: int
    epsilon: float

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.words.shape[1])

    def run(self, ids: Sequence[np.ndarray]) -> Iterator[NumpyHidden]:
        """Embed the tokens of texts sorted by length, those of one length at a time."""
        for _, texts in groupby(ids, key=len):
            yield NumpyHidden(self._embed(np.stack(list(texts))))

    def _embed(self, ids: np.ndarray) -> Floats:
        count, length = ids.shape
        start = self.words[ids] + self.positions[:length]
        x = self._norm(start.reshape(count * length, -1), self.embedding_norm)
        for layer in self.layers:
            context = self._attend(_linear(x, layer.query_key_value), count, length)
            x = self._norm(_linear(context, layer.attention_out) + x, layer.attention_norm)
            wide = _gelu(_linear(x, layer.widen))
            x = self._norm(_linear(wide, layer.narrow) + x, layer.out_norm)
        return x.reshape(count, length, -1)

    def _attend(self, qkv: Floats, count: int, length: int) -> Floats:
        """Self-attention inside every text: (tokens, 3 × dim) → (tokens, dim)."""
        head = self.dim // self.num_heads
        split = qkv.reshape(count, length, 3, self.num_heads, head)
        query, key, value = split.transpose(2, 0, 3, 1, 4)
        weight = query @ key.transpose(0, 1, 3, 2) * np.float32(head**-0.5)
        weight -= weight.max(-1, keepdims=True)
        np.exp(weight, out=weight)
        weight /= weight.sum(-1, keepdims=True)
        mixed: Floats = (weight @ value).transpose(0, 2, 1, 3).reshape(count * length, -1)
        return mixed

    def _norm(self, x: Floats, by: Map) -> Floats:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.einsum("ij,ij->i", centred, centred)[:, None] / np.float32(x.shape[1])
        found: Floats = centred / np.sqrt(spread + np.float32(self.epsilon)) * by[0] + by[1]
        return found


def read_numpy_bert(folder: Path) -> NumpyBert:
    """Read a BERT's folder: `config.json` and `model.safetensors`."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    with safe_open(str(folder / "model.safetensors"), "np") as file:

        def one(name: str) -> Floats:
            return np.asarray(file.get_tensor(name), np.float32)

        def norm(name: str) -> Map:
            return one(f"{name}.weight"), one(f"{name}.bias")

        def linear(*names: str) -> Map:
            weight = np.concatenate([one(f"{name}.weight") for name in names])
            return weight.T, np.concatenate([one(f"{name}.bias") for name in names])

        def layer(prefix: str) -> NumpyLayer:
            inputs = [f"{prefix}.attention.self.{name}" for name in ("query", "key", "value")]
            return NumpyLayer(
                query_key_value=linear(*inputs),
                attention_out=linear(f"{prefix}.attention.output.dense"),
                attention_norm=norm(f"{prefix}.attention.output.LayerNorm"),
                widen=linear(f"{prefix}.intermediate.dense"),
                narrow=linear(f"{prefix}.output.dense"),
                out_norm=norm(f"{prefix}.output.LayerNorm"),
            )

        segment = one("embeddings.token_type_embeddings.weight")[0]
        return NumpyBert(
            words=one("embeddings.word_embeddings.weight"),
            positions=one("embeddings.position_embeddings.weight") + segment,
            embedding_norm=norm("embeddings.LayerNorm"),
            layers=tuple(layer(f"encoder.layer.{i}") for i in range(config["num_hidden_layers"])),
            num_heads=config["num_attention_heads"],
            epsilon=config["layer_norm_eps"],
        )


def _linear(x: Floats, by: Map) -> Floats:
    found: Floats = x @ by[0]
    found += by[1]
    return found


def _gelu(x: Floats) -> Floats:
    """x·Φ(x), with erf by Abramowitz and Stegun, 7.1.26: error at most 1.5e-7."""
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(_ERF_SLOPE) * z)
    tail = np.full_like(t, _ERF[0])
    for each in _ERF[1:]:
        tail *= t
        tail += np.float32(each)
    tail *= t * np.exp(-z * z)
    found: Floats = x * np.float32(0.5) * (1 + np.copysign(1 - tail, x))
    return found


def _unit(rows: Floats) -> Floats:
    lengths = np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), np.float32(1e-12))
    found: Floats = rows / lengths
    return found
