"""Read an encoder's weights: token embeddings out of token ids, one vector out of those."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from srrag.model.encoder import Encoder, check_trained, model_path
from srrag.model.linear import Linear, make_linear
from srrag.model.read_weights import check_device, check_positions, read_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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


Forward = Callable[[Sequence[np.ndarray]], list[Tensor]]

_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_STATED: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda hidden: hidden.mean(1),
    "cls": lambda hidden: hidden[:, 0],
}


@dataclass(frozen=True, slots=True)
class TorchHidden:
    """The token embeddings of texts of one length, (texts, length, dim), and how they pool."""

    values: Tensor
    pool: Callable[[Tensor], Tensor]

    def __len__(self) -> int:
        return len(self.values)

    def pooled(self) -> np.ndarray:
        """Sentence vectors of unit length, float32 (texts, dim)."""
        with torch.inference_mode():
            return F.normalize(self.pool(self.values), dim=1).cpu().numpy()

    def tokens(self) -> np.ndarray:
        """Each token's embedding, of unit length, float32 (texts, length, dim)."""
        with torch.inference_mode():
            return F.normalize(self.values, dim=2).cpu().numpy()


@dataclass(frozen=True)
class Network:
    """`forward`: ids of texts sorted by length → per run of equal lengths (texts, L, dim).

    `pool`: such a run → (texts, `dim`), not yet normalised.
    """

    forward: Forward
    pool: Callable[[Tensor], Tensor]
    dim: int

    def run(self, ids: Sequence[np.ndarray]) -> Iterator[TorchHidden]:
        """Embed the tokens of texts sorted by length, and yield those of one length."""
        with torch.inference_mode():
            for hidden in self.forward(ids):
                yield TorchHidden(hidden.to(torch.float32), self.pool)


def read_network(encoder: Encoder, device: str) -> Network:
    """Read the weights (safetensors only, never remote code) and bring them to the device.

    A folder with a plain BERT and plain pooling, like the packaged model, is read as it is:
    importing transformers would take longer than loading it. All else goes through
    sentence-transformers. Raises ValueError for a model that cannot be read or a backend that
    cannot run it.
    """
    if encoder.backend == "torch-int8" and device != "cpu":
        raise ValueError(f"backend 'torch-int8' runs on the CPU; use 'torch-bf16' on {device!r}")
    check_device(device)
    check_trained(encoder.model, encoder.revision)
    folder = Path(model_path(encoder.model))
    here = (folder / "model.safetensors").is_file()
    pooling = _plain_pooling(folder, encoder.pooling) if here else None
    if pooling is not None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        check_positions(encoder.model, encoder.max_tokens, config.get("max_position_embeddings"))
        weights = load_file(folder / "model.safetensors")
        return Network(
            pack(weights, config, encoder.backend, device), pooling, config["hidden_size"]
        )
    return _through_sentence_transformers(encoder, device)


def _plain_pooling(folder: Path, stated: str) -> Callable[[Tensor], Tensor] | None:
    """How a folder's model pools, if it is a plain BERT with one plain pooling; else None."""
    mode = pooling_mode(folder, stated)
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return _STATED[mode] if mode and is_plain_bert(config) else None


def pooling_mode(folder: Path, stated: str = "") -> str | None:
    """`mean` or `cls`, as the encoder has `stated` or else as the folder says; None for others."""
    if stated:
        return stated
    try:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        pooling = json.loads((folder / modules[1]["path"] / "config.json").read_text("utf-8"))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return None
    modes = [name for name, on in pooling.items() if name.startswith("pooling_mode") and on is True]
    return _MODES.get(modes[0]) if len(modes) == 1 else None


def is_plain_bert(config: Mapping[str, Any]) -> bool:
    """Whether `PackedBert` computes what this configuration describes."""
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder", False)
    )


def pack(
    weights: Mapping[str, Tensor], config: Mapping[str, Any], backend: str, device: str = "cpu"
) -> Forward:
    """Bring the weights of a plain BERT to the device, in the arithmetic of the backend."""
    # A head's weights (BertForMaskedLM and the like) carry the prefix of the model inside.
    bare = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
    return pack_bert(
        {name: tensor.to(device=device) for name, tensor in bare.items()},
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        epsilon=config["layer_norm_eps"],
        backend=backend,
    )


def _through_sentence_transformers(encoder: Encoder, device: str) -> Network:
    from sentence_transformers import SentenceTransformer

    network = read_weights(SentenceTransformer, encoder.model, encoder.revision, "cpu").eval()
    model = cast("PreTrainedModel", network[0].model)
    config = model.config.to_dict()
    check_positions(encoder.model, encoder.max_tokens, config.get("max_position_embeddings"))
    width = network.get_embedding_dimension()
    if width is None:
        raise ValueError(f"model {encoder.model!r} does not say how long its vectors are")
    heads = [module.to(device) for module in list(network)[1:]]

    def own(hidden: Tensor) -> Tensor:
        mask = torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device)
        features = {"token_embeddings": hidden, "attention_mask": mask}
        for head in heads:
            features = head(features)
        return features["sentence_embedding"]

    pool = _STATED[encoder.pooling] if encoder.pooling else own
    width = int(config["hidden_size"]) if encoder.pooling else width
    if is_plain_bert(config):
        return Network(pack(model.state_dict(), config, encoder.backend, device), pool, width)
    if encoder.backend == "torch-int8":
        raise ValueError(
            f"backend 'torch-int8' needs a BERT-shaped model; {encoder.model!r} is "
            f"{config.get('model_type')!r}"
        )
    dtype = torch.bfloat16 if encoder.backend == "torch-bf16" else torch.float32
    module: torch.nn.Module = model
    placed = module.to(device=torch.device(device), dtype=dtype)
    return Network(partial(run_any, placed), pool, width)


def run_any(
    model: torch.nn.Module, ids: Sequence[np.ndarray], read: str = "last_hidden_state"
) -> list[Tensor]:
    """What any transformer gives, a pass without padding for each run of texts of equal length."""
    device = next(model.parameters()).device
    lengths = np.array([len(one) for one in ids])
    starts = np.flatnonzero(np.diff(lengths, prepend=-1))
    hidden = []
    for some in np.split(np.arange(len(ids)), starts[1:]):
        batch = torch.from_numpy(np.stack([ids[i] for i in some])).to(device)
        output = model(input_ids=batch, attention_mask=torch.ones_like(batch))
        hidden.append(getattr(output, read))
    return hidden
