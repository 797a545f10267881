"""Sentence and token embeddings from one forward pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from srrag.model.bert import pack_bert
from srrag.model.encoder import Encoder, Role, model_path
from srrag.model.tokens import Tokens, load_tokenizer

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel

Forward = Callable[[Sequence[np.ndarray]], list[Tensor]]


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
    """An encoder in memory; its methods may be called from several threads."""

    def __init__(self, encoder: Encoder, device: str) -> None:
        network = _read_model(encoder)
        self.encoder = encoder
        self.device = device
        self.dim = _width(network)
        self.tokenizer = load_tokenizer(encoder)
        self.num_texts = 0
        self.num_cut = 0
        self._count_lock = threading.Lock()
        self._forward, self._heads = _forward(network, encoder, device)

    def encode(
        self, texts: Sequence[str], role: Role = "passage", batch_tokens: int = 1024
    ) -> np.ndarray:
        """Unit-length sentence vectors, float32 (texts, dim)."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for rows, _, hidden in self._passes(self._tokenise(texts, role).ids, batch_tokens):
            vectors[rows] = self._pool(hidden)
        return vectors

    def encode_tokens(
        self, texts: Sequence[str], role: Role = "passage", batch_tokens: int = 1024
    ) -> tuple[np.ndarray, TokenVectors]:
        """Sentence vectors as `encode`, with the token embeddings of the same forward pass.

        Special tokens and tokens of punctuation alone are dropped; stop words stay.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        pieces: list[tuple[np.ndarray, np.ndarray]] = [_NO_TOKENS] * len(texts)
        width = 0
        found = self._tokenise(texts, role)
        for rows, ids, hidden in self._passes(found.ids, batch_tokens):
            vectors[rows] = self._pool(hidden)
            keep = self.tokenizer.content[ids]
            tokens = F.normalize(hidden, dim=2).cpu().numpy()[keep]
            width = tokens.shape[1]
            ends = np.cumsum(keep.sum(1))[:-1]
            values, scale = quantise_rows(tokens)
            parts = zip(np.split(values, ends), np.split(scale, ends), strict=True)
            for row, part in zip(rows, parts, strict=True):
                pieces[row] = part
        return vectors, _join(pieces, width, found.cut)

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text, uncut and without special tokens or prefix, int64 (texts,)."""
        return self.tokenizer.count(texts)

    def token_offsets(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Character start and end of each token of each text, uncut: int64 (tokens, 2)."""
        return self.tokenizer.spans(texts)

    def _tokenise(self, texts: Sequence[str], role: Role) -> Tokens:
        prefix = self.encoder.query_prefix if role == "query" else self.encoder.passage_prefix
        tokens = self.tokenizer.tokenise([prefix + text for text in texts] if prefix else texts)
        with self._count_lock:
            self.num_texts += len(texts)
            self.num_cut += int(tokens.cut.sum())
        return tokens

    def _passes(
        self, all_ids: Sequence[np.ndarray], batch_tokens: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, Tensor]]:
        """Yield (rows, ids (n, L), token embeddings float32 (n, L, dim)) for texts of one length.

        Only texts of one length share a matrix, so nothing is padded; and texts go longest
        first, at most `batch_tokens` tokens (or one text) a pass.
        """
        lengths = np.array([len(ids) for ids in all_ids], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        for rows in _budgeted(order, lengths, batch_tokens):
            with torch.inference_mode():
                groups = self._forward([all_ids[row] for row in rows])
                start = 0
                for hidden in groups:
                    some = rows[start : start + len(hidden)]
                    start += len(hidden)
                    ids = np.stack([all_ids[row] for row in some])
                    yield some, ids, hidden.to(torch.float32)

    def _pool(self, hidden: Tensor) -> np.ndarray:
        """Run the model's own pooling (and any dense head), then normalise."""
        mask = torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device)
        features = {"token_embeddings": hidden, "attention_mask": mask}
        for head in self._heads:
            features = head(features)
        return F.normalize(features["sentence_embedding"], dim=1).cpu().numpy()


_NO_TOKENS = (np.zeros((0, 0), dtype=np.int8), np.zeros(0, dtype=np.float16))
_LOADED: dict[tuple[Encoder, str], LoadedEncoder] = {}
_LOADING = threading.Lock()


def load(encoder: Encoder, device: str = "cpu", threads: int | None = None) -> LoadedEncoder:
    """Return the encoder in memory, read once per process and device.

    `threads` sets torch's threads for the whole process. Raises ValueError for a model that
    cannot be read, or a backend that cannot run it.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    with _LOADING:
        key = (encoder, device)
        if key not in _LOADED:
            _LOADED[key] = LoadedEncoder(encoder, device)
        return _LOADED[key]


def quantise_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round float (n, dim) rows to int8 with a float16 scale per row; error ≤ scale / 2."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    # Rounded up to float16 first, so that dividing by the stored scale never leaves int8.
    scale = np.nextafter((peak / 127).astype(np.float16), np.float16(np.inf))
    return np.rint(rows / scale[:, None].astype(np.float32)).astype(np.int8), scale


def _join(
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


def _budgeted(order: np.ndarray, lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Split rows, in their order, into runs of at most `budget` tokens (or one row)."""
    start, used = 0, 0
    for stop, row in enumerate(order):
        if used and used + lengths[row] > budget:
            yield order[start:stop]
            start, used = stop, 0
        used += int(lengths[row])
    if start < len(order):
        yield order[start:]


def _read_model(encoder: Encoder) -> SentenceTransformer:
    """Read weights (safetensors only, never remote code) as a sentence-transformers model."""
    from sentence_transformers import SentenceTransformer

    path = model_path(encoder.model)
    try:
        network = SentenceTransformer(
            path,
            device="cpu",
            revision=encoder.revision,
            trust_remote_code=False,
            local_files_only=Path(path).is_dir(),
            model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise ValueError(f"model {encoder.model!r} cannot be read: {first}") from error
    positions = getattr(_transformer(network).config, "max_position_embeddings", None)
    if positions is not None and encoder.max_tokens > positions:
        raise ValueError(
            f"max_tokens {encoder.max_tokens} exceeds the {positions} positions of "
            f"model {encoder.model!r}"
        )
    return network.eval()


def _transformer(network: SentenceTransformer) -> PreTrainedModel:
    """Return the transformer inside; the rest of the modules pool its output."""
    return cast("PreTrainedModel", network[0].model)


def _width(network: SentenceTransformer) -> int:
    """Length of a sentence vector."""
    width = network.get_embedding_dimension()
    if width is None:
        raise ValueError("the model does not say how long its vectors are")
    return width


def _forward(
    network: SentenceTransformer, encoder: Encoder, device: str
) -> tuple[Forward, list[torch.nn.Module]]:
    """Token embeddings for texts sorted by length, and the modules that pool them."""
    bert = _transformer(network)
    dtype = torch.bfloat16 if encoder.backend == "torch-bf16" else torch.float32
    int8 = encoder.backend == "torch-int8"
    if int8 and device != "cpu":
        raise ValueError(f"backend 'torch-int8' runs on the CPU; use 'torch-bf16' on {device!r}")
    heads = [module.to(device) for module in list(network)[1:]]
    if _is_plain_bert(bert.config):
        packed = pack_bert(
            {name: tensor.to(device) for name, tensor in bert.state_dict().items()},
            num_layers=bert.config.num_hidden_layers,
            num_heads=bert.config.num_attention_heads,
            epsilon=bert.config.layer_norm_eps,
            dtype=dtype,
            int8=int8,
        )
        return packed, heads
    if int8:
        raise ValueError(
            f"backend 'torch-int8' needs a BERT-shaped model; {encoder.model!r} is "
            f"{bert.config.model_type!r}"
        )
    module: torch.nn.Module = bert
    return partial(_run_any, module.to(device=torch.device(device), dtype=dtype)), heads


def _is_plain_bert(config: object) -> bool:
    """Whether `PackedBert` computes what this configuration describes."""
    return (
        getattr(config, "model_type", "") == "bert"
        and getattr(config, "hidden_act", "") == "gelu"
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not getattr(config, "is_decoder", False)
    )


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
