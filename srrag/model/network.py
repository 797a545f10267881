"""Read an encoder's weights: token embeddings out of token ids, one vector out of those."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from srrag.model.bert import pack_bert
from srrag.model.encoder import Encoder, check_trained, model_path
from srrag.model.read_weights import check_device, check_positions, read_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
    return Network(partial(_run_any, placed), pool, width)


def _run_any(model: torch.nn.Module, ids: Sequence[np.ndarray]) -> list[Tensor]:
    """Run any transformer, one pass per run of texts of equal length."""
    device = next(model.parameters()).device
    lengths = np.array([len(one) for one in ids])
    starts = np.flatnonzero(np.diff(lengths, prepend=-1))
    hidden = []
    for some in np.split(np.arange(len(ids)), starts[1:]):
        batch = torch.from_numpy(np.stack([ids[i] for i in some])).to(device)
        output = model(input_ids=batch, attention_mask=torch.ones_like(batch))
        hidden.append(output.last_hidden_state)
    return hidden
