"""Cross-encoders: question and passage read as one text, one logit out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

DTYPES = ("float32", "bfloat16")
_BATCH_PAIRS = 32


@dataclass(frozen=True, kw_only=True)
class CrossEncoderModel:
    """A cross-encoder and its arithmetic: what decides the scores, not where they are made."""

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
    """Read the weights: safetensors only, never remote code."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers.utils.logging import disable_progress_bar

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {device!r}: torch finds no GPU, and no other device is taken")
    local = Path(model.model).is_dir()
    if not local and model.revision is None:
        raise ValueError(f"model {model.model!r} is no folder here; a hub id needs its revision")
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        found: CrossEncoder = CrossEncoder(
            model.model,
            device=device,
            revision=model.revision,
            trust_remote_code=False,
            local_files_only=local,
            model_kwargs={"use_safetensors": True, "dtype": getattr(torch, model.dtype)},
            max_length=model.max_tokens,
        )
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ValueError(f"model {model.model!r} cannot be read: {first}") from error
    if found.num_labels != 1:
        raise ValueError(
            f"model {model.model!r} gives {found.num_labels} numbers for a pair; a reranker gives 1"
        )
    positions = getattr(found.config, "max_position_embeddings", None)
    if positions is not None and model.max_tokens > positions:
        raise ValueError(
            f"max_tokens {model.max_tokens} exceeds the {positions} positions of "
            f"model {model.model!r}"
        )
    return found
