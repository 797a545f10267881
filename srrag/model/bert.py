"""A padding-free forward pass for BERT-shaped encoders, in float32, bfloat16 or int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

_USUAL_TOKENS = 1024
"""Rows of a batch that orders of weights are chosen for; others are multiplied, too."""


class Linear(Protocol):
    """An affine map over the last axis of a (tokens, features) matrix."""

    def __call__(self, x: Tensor) -> Tensor:
        """Map (tokens, in) to (tokens, out)."""


@dataclass(frozen=True, slots=True)
class DenseLinear:
    """An affine map in the weights' own dtype, and GELU after it where `gelu`."""

    weight: Tensor
    bias: Tensor
    gelu: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Map (tokens, in) to (tokens, out)."""
        found = F.linear(x, self.weight, self.bias)
        return F.gelu(found) if self.gelu else found


@dataclass(frozen=True, slots=True)
class OrderedLinear:
    """`DenseLinear` in bfloat16 on a CPU, its weight in the order that oneDNN multiplies in.

    `F.linear` reorders the weight at every call, and writes what GELU then has to read again.
    """

    weight: Tensor  # opaque
    bias: Tensor
    gelu: bool = False

    @classmethod
    def ordered(cls, weight: Tensor, bias: Tensor, *, gelu: bool) -> OrderedLinear:
        """Reorder a bfloat16 (out, in) weight."""
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight, _USUAL_TOKENS), bias, gelu)

    def __call__(self, x: Tensor) -> Tensor:
        """Map (tokens, in) to (tokens, out)."""
        after = "gelu" if self.gelu else "none"
        multiply = torch.ops.mkldnn._linear_pointwise
        found: Tensor = multiply(x, self.weight, self.bias, after, [], "none")
        return found


@dataclass(frozen=True, slots=True)
class RowInt8Linear:
    """An affine map in int8 with one scale per output channel and per token.

    Scales of its own for every token, and exact int32 sums, make a token's result independent
    of its neighbours in the batch; the usual scale per activation tensor does not.
    Weights span -64…64 only: processors without VNNI add pairs of products in saturating int16,
    which 255 × 64 × 2 never reaches, so every processor gets the same sums.
    """

    multiply: Linear  # int8 (tokens, in) to float32 (tokens, out), each column scaled
    bias: Tensor  # float32 (out,)
    gelu: bool = False

    @classmethod
    def quantise(cls, weight: Tensor, bias: Tensor, *, gelu: bool = False) -> RowInt8Linear:
        """Round a float (out, in) weight to -64…64, one scale per output channel."""
        scale = weight.abs().amax(1).clamp_(min=1e-12).div_(64)
        rounded = (weight / scale[:, None]).round_().to(torch.int8)
        return cls(_int8_product(rounded, scale), bias, gelu)

    def __call__(self, x: Tensor) -> Tensor:
        """Map float32 (tokens, in) to float32 (tokens, out)."""
        work = x.abs()
        step = work.amax(1, keepdim=True).clamp_(min=1e-12).div_(127)
        torch.mul(x, step.reciprocal(), out=work).round_()
        product = self.multiply(work.to(torch.int8))
        torch.addcmul(self.bias, product, step, out=product)
        return F.gelu(product) if self.gelu else product


_ZERO = 128
"""Activations go in unsigned with this zero point, for the same sums: where a processor lacks AMX,
oneDNN multiplies signed ones by a reference kernel, thousands of times slower."""


def _int8_product(weight: Tensor, scale: Tensor) -> Linear:
    """The product with an int8 (out, in) weight, exact before each column takes its scale."""
    if not _has_onednn():
        return lambda x: torch._int_mm(x, weight.t()).to(torch.float32).mul_(scale)
    ordered = torch.ops.onednn.qlinear_prepack(weight, None)
    no_zeros = torch.zeros(len(scale), dtype=torch.int32)

    def product(x: Tensor) -> Tensor:
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            x.view(torch.uint8) ^ _ZERO,
            1.0,
            _ZERO,
            ordered,
            scale,
            no_zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return found

    return product


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
    dtype: torch.dtype,
    int8: bool,
) -> PackedBert:
    """Arrange the weights of a Hugging Face `BertModel` for `PackedBert`."""

    def norm(name: str) -> Norm:
        return Norm(weights[f"{name}.weight"].to(dtype), weights[f"{name}.bias"].to(dtype))

    def linear(*names: str, gelu: bool = False) -> Linear:
        weight = torch.cat([weights[f"{name}.weight"] for name in names])
        bias = torch.cat([weights[f"{name}.bias"] for name in names])
        if int8:
            return RowInt8Linear.quantise(weight, bias, gelu=gelu)
        if _is_ordered(dtype, weight.device):
            return OrderedLinear.ordered(weight.to(dtype), bias.to(dtype), gelu=gelu)
        return DenseLinear(weight.to(dtype), bias.to(dtype), gelu)

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
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    return PackedBert(
        words=weights["embeddings.word_embeddings.weight"].to(dtype),
        positions=(weights["embeddings.position_embeddings.weight"] + segment).to(dtype),
        embedding_norm=norm("embeddings.LayerNorm"),
        layers=tuple(layer(f"encoder.layer.{i}") for i in range(num_layers)),
        num_heads=num_heads,
        epsilon=epsilon,
    )


def _is_ordered(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether oneDNN multiplies this. In float32, MKL is as fast without another order."""
    here = dtype == torch.bfloat16 and device.type == "cpu" and _has_onednn()
    return here and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _has_onednn() -> bool:
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
