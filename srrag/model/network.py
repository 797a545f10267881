"""Read an encoder's weights: token embeddings out of token ids, one vector out of those.

On a CPU texts of one length share a matrix, and nothing is padded. A GPU waits for each of its
kernels, and a run of lengths is hundreds: there a pass is one block, padded to its longest text.
"""

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
from torch.nn.attention import SDPBackend, sdpa_kernel

from srrag.model.embed import quantise_rows
from srrag.model.encoder import Encoder, check_model, model_path
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
        place = torch.from_numpy(np.concatenate([np.arange(len(i)) for i in ids])).to(device)
        runs = [(length, len(list(run))) for length, run in groupby(ids, key=len)]
        x = self._embed(flat, place, runs, None)
        parts = torch.split_with_sizes(x, [length * count for length, count in runs])
        return [
            part.view(count, length, -1) for part, (length, count) in zip(parts, runs, strict=True)
        ]

    def block(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token embeddings (texts, L, dim) of padded ids; the mask says which are a text's."""
        count, length = ids.shape
        place = torch.arange(length, device=ids.device).expand(count, length)
        seen = mask.bool()[:, None, None, :]
        x = self._embed(ids.reshape(-1), place.reshape(-1), [(length, count)], seen)
        return x.view(count, length, -1)

    def _embed(
        self, ids: Tensor, place: Tensor, runs: Sequence[tuple[int, int]], seen: Tensor | None
    ) -> Tensor:
        x = self.embedding_norm(self.words[ids] + self.positions[place], self.epsilon)
        for layer in self.layers:
            context = self._attend(layer.query_key_value(x), runs, seen)
            x = layer.attention_norm(layer.attention_out(context).add_(x), self.epsilon)
            x = layer.out_norm(layer.narrow(layer.widen(x)).add_(x), self.epsilon)
        return x

    def _attend(self, qkv: Tensor, runs: Sequence[tuple[int, int]], seen: Tensor | None) -> Tensor:
        """Self-attention inside every text: (tokens, 3 × dim) → (tokens, dim)."""
        width = qkv.shape[1] // 3
        head = width // self.num_heads
        context = qkv.new_empty(qkv.shape[0], width)
        start = 0
        for length, count in runs:
            stop = start + length * count
            shape = (count, length, 3, self.num_heads, head)
            query, key, value = qkv[start:stop].view(shape).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
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
"""Ids of texts sorted by length → per run of equal lengths (texts, L, dim)."""

Block = Callable[[Tensor, Tensor], Tensor]
"""Padded ids and their mask, int64 (texts, L) → (texts, L, dim)."""

Pool = Callable[[Tensor, Tensor | None], Tensor]
"""Token embeddings (texts, L, dim) and their mask, if padded → (texts, dim), not normalised."""


def _mean(hidden: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return hidden.mean(1)
    seen = mask.to(hidden.dtype).unsqueeze(2)
    return (hidden * seen).sum(1) / seen.sum(1)


_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_STATED: dict[str, Pool] = {"mean": _mean, "cls": lambda hidden, mask: hidden[:, 0]}


@dataclass(frozen=True, slots=True)
class TorchHidden:
    """Token embeddings (texts, length, dim), their mask if they are padded, and how they pool."""

    values: Tensor
    mask: Tensor | None
    pool: Pool

    def __len__(self) -> int:
        return len(self.values)

    def pooled(self) -> np.ndarray:
        """Sentence vectors of unit length, float32 (texts, dim)."""
        with torch.inference_mode():
            return F.normalize(self.pool(self.values, self.mask), dim=1).cpu().numpy()

    def tokens(self, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some tokens' embeddings, of unit length, as `quantise_rows` rounds them.

        `keep`: bool, of all tokens of all texts, one text after the other.
        """
        with torch.inference_mode():
            values = self.values
            own = values.flatten(0, 1) if self.mask is None else values[self.mask.bool()]
            unit = F.normalize(own[torch.from_numpy(keep).to(own.device)], dim=1)
            if self.mask is None:
                return quantise_rows(unit.numpy())
            scale = (unit.abs().amax(1) / 127).half()
            scale = (scale.view(torch.int16) + 1).view(torch.float16)  # the next number upwards
            rounded = (unit / scale.float()[:, None]).round().to(torch.int8)
            return rounded.cpu().numpy(), scale.cpu().numpy()


@dataclass(frozen=True)
class Network:
    """What embeds tokens, how they pool, and the length of the vectors.

    A pass is padded and goes through `block` on the GPU `padded_on`, else through `forward`.
    """

    forward: Forward
    block: Block
    pool: Pool
    dim: int
    padded_on: str | None

    def run(self, ids: Sequence[np.ndarray]) -> Iterator[TorchHidden]:
        """Embed texts sorted by length, and yield those of one length, or all in one block."""
        with torch.inference_mode():
            if self.padded_on is None:
                for hidden in self.forward(ids):
                    yield TorchHidden(hidden.float(), None, self.pool)
            else:
                texts, mask = (part.to(self.padded_on) for part in _padded(ids))
                with sdpa_kernel(_ATTENTION):
                    hidden = self.block(texts, mask)
                yield TorchHidden(hidden.float(), mask, self.pool)


_ATTENTION = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""cuDNN's, which torch prefers in bfloat16, takes 11 ms to plan for every new shape; flash
attention knows no mask."""


def _padded(ids: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Ids and mask, int64 (texts, longest); what is padded is never seen."""
    lengths = np.array([len(one) for one in ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    texts = np.zeros(mask.shape, np.int64)
    texts[mask] = np.concatenate(ids)
    return torch.from_numpy(texts), torch.from_numpy(mask.astype(np.int64))


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
    check_model(encoder.model, encoder.revision)
    folder = Path(model_path(encoder.model))
    here = (folder / "model.safetensors").is_file()
    pooling = _plain_pooling(folder, encoder.pooling) if here else None
    if pooling is not None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        check_positions(encoder.model, encoder.max_tokens, config.get("max_position_embeddings"))
        weights = load_file(folder / "model.safetensors")
        bert = pack(weights, config, encoder.backend, device)
        return Network(bert, bert.block, pooling, config["hidden_size"], _padded_on(device))
    return _through_sentence_transformers(encoder, device)


def _padded_on(device: str) -> str | None:
    return None if device == "cpu" else device


def _plain_pooling(folder: Path, stated: str) -> Pool | None:
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
    if isinstance(said := pooling.get("pooling_mode"), str):  # as sentence-transformers 6 writes it
        return said if said in _STATED and pooling.get("include_prompt", True) else None
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
) -> PackedBert:
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

    def own(hidden: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            mask = torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device)
        features = {"token_embeddings": hidden, "attention_mask": mask}
        for head in heads:
            features = head(features)
        return features["sentence_embedding"]

    pool = _STATED[encoder.pooling] if encoder.pooling else own
    width = int(config["hidden_size"]) if encoder.pooling else width
    if is_plain_bert(config):
        bert = pack(model.state_dict(), config, encoder.backend, device)
        return Network(bert, bert.block, pool, width, _padded_on(device))
    if encoder.backend == "torch-int8":
        raise ValueError(
            f"backend 'torch-int8' needs a BERT-shaped model; {encoder.model!r} is "
            f"{config.get('model_type')!r}"
        )
    dtype = torch.bfloat16 if encoder.backend == "torch-bf16" else torch.float32
    module: torch.nn.Module = model
    placed = module.to(device=torch.device(device), dtype=dtype)

    def block(ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = placed(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden

    return Network(partial(run_any, placed), block, pool, width, _padded_on(device))


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
