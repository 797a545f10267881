"""Read a model through sentence-transformers: safetensors only, never remote code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from srrag.model.encoder import model_path


def read_weights(kind: type, model: str, revision: str | None, device: str, **options: Any) -> Any:
    """A model of the library's class `kind`; `dtype` among the options, else float32.

    Raises ValueError in one line for a device that is not there, a hub id without its revision,
    or a model that cannot be read.
    """
    from transformers.utils.logging import disable_progress_bar

    check_device(device)
    path = model_path(model)
    local = Path(path).is_dir()
    if not local and revision is None:
        raise ValueError(f"model {model!r} is no folder here; a hub id needs its revision")
    disable_progress_bar()  # type: ignore[no-untyped-call]
    dtype = options.pop("dtype", torch.float32)
    try:
        return kind(
            path,
            device=device,
            revision=None if local else revision,
            trust_remote_code=False,
            local_files_only=local,
            model_kwargs={"use_safetensors": True, "dtype": dtype},
            **options,
        )
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ValueError(f"model {model!r} cannot be read: {first}") from error


def check_device(device: str) -> None:
    """Raise ValueError if the device is a GPU and there is none."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {device!r}: torch finds no GPU, and no other device is taken")


def check_positions(model: str, max_tokens: int, positions: int | None) -> None:
    """Raise ValueError if texts would be longer than the model has positions."""
    if positions is not None and max_tokens > positions:
        raise ValueError(
            f"max_tokens {max_tokens} exceeds the {positions} positions of model {model!r}"
        )
