"""Read a model of sentence-transformers or transformers: safetensors only, never remote code."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from srrag.core.errors import first_line
from srrag.model.encoder import model_path

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CONFIG, TOKENIZER = "config.json", "tokenizer.json"


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
        raise ValueError(f"model {model!r} cannot be read: {first_line(error)}") from error


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


def encoder_folder(model: str, revision: str | None, key: str = "train.model") -> Path:
    """The folder of the packaged model, of a local one, or of a hub model once downloaded.

    Raises ValueError that begins with the `key` of the setting.
    """
    path = Path(model_path(model))
    if not path.is_dir():
        from huggingface_hub import snapshot_download

        patterns = ["*.safetensors", "*.json"]
        try:
            path = Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
        except (OSError, ValueError) as error:
            raise ValueError(f"{key}={model}: {first_line(error)}") from error
    for name in (CONFIG, TOKENIZER):
        if not (path / name).is_file():
            raise ValueError(f"{key}={model}: no {name} in {path}")
    return path


def load_transformer(
    source: str | Path, said: str, kind: str = "AutoModel", **options: Any
) -> PreTrainedModel:
    """The model of a folder, or of a hub id with its `revision`, by transformers' class `kind`.

    In float32, if `dtype` is not among the options. Raises ValueError that begins with `said`.
    """
    import transformers
    from transformers.utils import logging as reports

    level = reports.get_verbosity()
    reports.disable_progress_bar()  # type: ignore[no-untyped-call]
    reports.set_verbosity(logging.ERROR)  # a head that is new, and will be trained, is no news
    try:
        found: PreTrainedModel = getattr(transformers, kind).from_pretrained(
            source,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=Path(source).is_dir(),
            **{"dtype": torch.float32, **options},
        )
    except (OSError, ValueError) as error:
        raise ValueError(f"{said}: {first_line(error)}") from error
    finally:
        reports.set_verbosity(level)
    return found


def load_trainable(folder: Path, model: str, key: str, max_tokens: int) -> PreTrainedModel:
    """An encoder to train, in float32, but for its words' own vectors and its pooler.

    So few questions teach no new words, and nothing asks the pooler. Raises ValueError that names
    the setting, `key` that of the model.
    """
    encoder = load_transformer(folder, f"{key}={model}")
    positions = getattr(encoder.config, "max_position_embeddings", max_tokens)
    if max_tokens > positions:
        raise ValueError(f"train.max_tokens={max_tokens}: {model} has {positions} positions")
    encoder.get_input_embeddings().requires_grad_(False)
    if isinstance(pooler := getattr(encoder, "pooler", None), torch.nn.Module):
        pooler.requires_grad_(False)
    return encoder
