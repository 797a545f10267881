"""Cross-encoders: question and passage read as one text, one logit out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from srrag.model.read_weights import check_positions, read_weights

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

DTYPES = ("float32", "bfloat16")
_BATCH_PAIRS = 32


@dataclass(frozen=True, kw_only=True)
class CrossEncoderModel:
    """A cross-encoder and its arithmetic: everything that decides the scores, but no device."""

    separator: ClassVar[str] = "\n"
    """Between the title and the text of a passage."""

    model: str
    """A local folder, or a hub id with its `revision`."""
    revision: str | None = None
    """Commit of a hub model."""
    max_tokens: int = 512
    """Longer pairs are cut here, special tokens included."""
    dtype: str = "float32"
    """`float32` or `bfloat16`."""

    def __post_init__(self) -> None:
        """Reject settings that no model could run with."""
        if not self.model:
            raise ValueError("model is missing: a folder, or a hub id with its revision")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")
        if self.max_tokens < 8:
            raise ValueError(f"max_tokens {self.max_tokens} is below 8")


class LoadedCrossEncoder:
    """A cross-encoder in memory."""

    def __init__(self, model: CrossEncoderModel, device: str) -> None:
        self._network = _read(model, device)
        self._asking = threading.Lock()

    def logits(self, question: str, passages: Sequence[str]) -> npt.NDArray[np.float64]:
        """The model's own output for each passage, no sigmoid applied, float64 (passages,).

        Passages of similar length share a batch; other questions never do, so a score does not
        depend on what else is asked.
        """
        from torch import nn

        if not passages:
            return np.zeros(0)
        pairs = [(question, passage) for passage in passages]
        with self._asking:
            found = self._network.predict(
                pairs,
                batch_size=_BATCH_PAIRS,
                activation_fn=nn.Identity(),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return np.asarray(found, np.float64).reshape(len(passages))


_LOADED: dict[tuple[CrossEncoderModel, str], LoadedCrossEncoder] = {}
_LOADING = threading.Lock()


def load_cross_encoder(
    model: CrossEncoderModel, device: str = "cpu", threads: int | None = None
) -> LoadedCrossEncoder:
    """Return the model in memory, read once per process and device.

    `threads` sets torch's threads for the whole process. Raises ValueError for a model that
    cannot be read or does not give one number for a pair.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    with _LOADING:
        if (model, device) not in _LOADED:
            _LOADED[model, device] = LoadedCrossEncoder(model, device)
        return _LOADED[model, device]


def _read(model: CrossEncoderModel, device: str) -> CrossEncoder:
    import torch
    from sentence_transformers import CrossEncoder

    dtype = getattr(torch, model.dtype)
    found: CrossEncoder = read_weights(
        CrossEncoder, model.model, model.revision, device,
        dtype=dtype, max_length=model.max_tokens,
    )  # fmt: skip
    if found.num_labels != 1:
        raise ValueError(
            f"model {model.model!r} gives {found.num_labels} numbers for a pair; a reranker gives 1"
        )
    positions = getattr(found.config, "max_position_embeddings", None)
    check_positions(model.model, model.max_tokens, positions)
    return found
