"""An encoder during training: pooled and token vectors with their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srrag.model.encoder import COLBERT, Encoder, Role, load_tokenizer
from srrag.model.network import pooling_mode
from srrag.model.read_weights import encoder_folder, load_trainable

PASSAGE: Role = "passage"
QUERY: Role = "query"
_TOGETHER = 8
"""Number of texts padded to one length."""


class Vectors(NamedTuple):
    """Vectors of unit length of n texts; `tokens` is 0 where `content` is False."""

    pooled: Tensor  # (n, dim)
    tokens: Tensor  # (n, L, dim)
    content: Tensor  # bool (n, L)


class Towers:
    """The models of an encoder (one, or one for each role), its tokenizer and its pooling."""

    def __init__(self, base: Encoder, max_tokens: int, device: str) -> None:
        """Load in float32; raises ValueError for a model that cannot be trained."""
        self.base, self.device = base, device
        self.folders = tower_folders(base)
        self.pooling = trained_pooling(base, self.folders[PASSAGE])
        self.module = nn.ModuleDict()
        for role, folder in self.folders.items():
            model = load_trainable(folder, base.model, "embedder.model", max_tokens)
            self.module[role] = model
            self.dim = int(model.config.hidden_size)
        self.module.to(device).eval()  # no dropout: one result on any number of workers
        self.tokenizer = load_tokenizer(base)
        self.max_tokens = max_tokens

    def ids(self, texts: Sequence[str], role: Role) -> list[np.ndarray]:
        """Token ids, cut at `max_tokens` (the end token stays)."""
        prefix = self.base.query_prefix if role == QUERY else self.base.passage_prefix
        found = self.tokenizer.tokenise([prefix + text for text in texts]).ids
        return [
            np.append(each[: self.max_tokens - 1], each[-1])
            if len(each) > self.max_tokens
            else each
            for each in found
        ]

    def vectors(self, ids: Sequence[np.ndarray], role: Role, length: int) -> Vectors:
        """Vectors of texts, their tokens padded to `length`; texts of like length go together."""
        order = np.argsort([len(each) for each in ids], kind="stable")
        parts = [order[i : i + _TOGETHER] for i in range(0, len(order), _TOGETHER)]
        found = [self._vectors([ids[i] for i in part], role, length) for part in parts]
        back = torch.from_numpy(np.argsort(order)).to(self.device)
        return Vectors(*(torch.cat(each)[back] for each in zip(*found, strict=True)))

    def _vectors(self, ids: Sequence[np.ndarray], role: Role, length: int) -> Vectors:
        longest = max(len(each) for each in ids)
        padded = np.zeros((len(ids), longest), np.int64)
        mask = np.zeros((len(ids), longest), np.int64)
        for row, each in enumerate(ids):
            padded[row, : len(each)], mask[row, : len(each)] = each, 1
        content = torch.from_numpy(self.tokenizer.is_content(padded) & (mask > 0)).to(self.device)
        given, seen = (torch.from_numpy(part).to(self.device) for part in (padded, mask))
        model = self.module[role if role in self.module else PASSAGE]
        hidden = model(input_ids=given, attention_mask=seen).last_hidden_state
        if self.pooling == "cls":
            pooled = hidden[:, 0]
        else:
            weight = seen.to(hidden.dtype).unsqueeze(2)
            pooled = (hidden * weight).sum(1) / weight.sum(1)
        tokens = F.normalize(hidden, dim=2) * content.unsqueeze(2)
        more = length - longest
        return Vectors(
            F.normalize(pooled, dim=1), F.pad(tokens, (0, 0, 0, more)), F.pad(content, (0, more))
        )

    def weights(self, trained: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """The whole weights of each tower, the `trained` ones in the place of its own."""
        found: dict[str, dict[str, Tensor]] = {}
        for role, model in self.module.items():
            whole = dict(model.state_dict())
            new = {n.removeprefix(f"{role}."): t for n, t in trained.items() if n.startswith(role)}
            assert new.keys() <= whole.keys()
            found[role] = {n: t.cpu().contiguous() for n, t in (whole | new).items()}
        return found


def tower_folders(base: Encoder) -> dict[str, Path]:
    """The folder of the passages' model, and that of the queries' if it is another.

    Raises ValueError that names the key of the one that cannot be read.
    """
    folders: dict[str, Path] = {
        PASSAGE: encoder_folder(base.model, base.revision, "embedder.model")
    }
    if base.query_model:
        key = "embedder.query_model"
        folders[QUERY] = encoder_folder(base.query_model, base.query_revision, key)
    return folders


def trained_pooling(base: Encoder, folder: Path) -> str:
    """How the encoder pools, `mean` or `cls`; raises ValueError for a kind that is not trained."""
    if base.backend == COLBERT:
        raise ValueError(
            "embedder.backend=colbert: a model without a vector for the whole text is not trained"
        )
    mode = pooling_mode(folder, base.pooling)
    if mode is None:
        raise ValueError(
            f"embedder.model={base.model}: it does not say that it pools by cls or mean; "
            "embedder.pooling= says it"
        )
    return mode
