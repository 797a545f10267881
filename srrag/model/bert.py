"""A padding-free forward pass for BERT-shaped encoders, in float32, bfloat16 or int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from srrag.model.linear import Linear, make_linear


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer normalisation's weight and bias."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor, epsilon: float) -> Tensor:
        """Normalise over the last axis."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, epsilon)


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer block; query, key and value are one map, so rows are quantised once."""

    query_key_value: Linear
    attention_out: Linear
    attention_norm: Norm
    widen: Linear
    narrow: Linear
    out_norm: Norm


@dataclass(frozen=True, slots=True)
class PackedBert:
    """BERT over the flat tokens of a batch; attention runs per group of texts of equal length.

    Without padding no work is wasted, and a text's result does not depend on its neighbours.
    """

    words: Tensor
    positions: Tensor
    embedding_norm: Norm
    layers: tuple[Layer, ...]
    num_heads: int
    epsilon: float

    def __call__(self, ids: Sequence[np.ndarray]) -> list[Tensor]:
        """Token embeddings of texts sorted by length: per run of equal lengths (texts, L, dim)."""
        device = self.words.device
        flat = torch.from_numpy(np.concatenate(ids)).to(device)
        place = np.concatenate([np.arange(len(i)) for i in ids])
        runs = [(length, len(list(run))) for length, run in groupby(ids, key=len)]
        x = self.words[flat] + self.positions[torch.from_numpy(place).to(device)]
        x = self.embedding_norm(x, self.epsilon)
        for layer in self.layers:
            context = self._attend(layer.query_key_value(x), runs)
            x = layer.attention_norm(layer.attention_out(context).add_(x), self.epsilon)
            x = layer.out_norm(layer.narrow(layer.widen(x)).add_(x), self.epsilon)
        parts = torch.split_with_sizes(x, [length * count for length, count in runs])
        return [
            part.view(count, length, -1) for part, (length, count) in zip(parts, runs, strict=True)
        ]

    def _attend(self, qkv: Tensor, runs: Sequence[tuple[int, int]]) -> Tensor:
        """Self-attention inside every text: (tokens, 3 × dim) → (tokens, dim)."""
        width = qkv.shape[1] // 3
        head = width // self.num_heads
        context = qkv.new_empty(qkv.shape[0], width)
        start = 0
        for length, count in runs:
            stop = start + length * count
            shape = (count, length, 3, self.num_heads, head)
            query, key, value = qkv[start:stop].view(shape).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(query, key, value)
            out = context[start:stop].view(count, length, self.num_heads, head)
            out.copy_(mixed.transpose(1, 2))
            start = stop
        return context


def pack_bert(
    weights: Mapping[str, Tensor],
    *,
    num_layers: int,
    num_heads: int,
    epsilon: float,
    backend: str,
) -> PackedBert:
    """Arrange the weights of a Hugging Face `BertModel` for `PackedBert`."""
    dtype = torch.bfloat16 if backend == "torch-bf16" else torch.float32
    segments = weights["embeddings.token_type_embeddings.weight"]
    make = make_linear(backend, segments.device)

    def norm(name: str) -> Norm:
        return Norm(weights[f"{name}.weight"].to(dtype), weights[f"{name}.bias"].to(dtype))

    def linear(*names: str, gelu: bool = False) -> Linear:
        weight = torch.cat([weights[f"{name}.weight"] for name in names])
        bias = torch.cat([weights[f"{name}.bias"] for name in names])
        return make(weight, bias, gelu)

    def layer(prefix: str) -> Layer:
        inputs = [f"{prefix}.attention.self.{name}" for name in ("query", "key", "value")]
        return Layer(
            query_key_value=linear(*inputs),
            attention_out=linear(f"{prefix}.attention.output.dense"),
            attention_norm=norm(f"{prefix}.attention.output.LayerNorm"),
            widen=linear(f"{prefix}.intermediate.dense", gelu=True),
            narrow=linear(f"{prefix}.output.dense"),
            out_norm=norm(f"{prefix}.output.LayerNorm"),
        )

    # Single texts only ever use segment 0, so its embedding is part of every position's.
    segment = segments[0]
    return PackedBert(
        words=weights["embeddings.word_embeddings.weight"].to(dtype),
        positions=(weights["embeddings.position_embeddings.weight"] + segment).to(dtype),
        embedding_norm=norm("embeddings.LayerNorm"),
        layers=tuple(layer(f"encoder.layer.{i}") for i in range(num_layers)),
        num_heads=num_heads,
        epsilon=epsilon,
    )
