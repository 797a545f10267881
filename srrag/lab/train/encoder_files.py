"""Load an encoder (folder, hub id or packaged) as the start of a classifier."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, cast

from srrag.algo.token_f1 import CLASSES
from srrag.model.encoder import model_path

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LABELS = ("none", *CLASSES)


def load_classifier(encoder: str, revision: str | None) -> PreTrainedModel:
    """The encoder with a new linear map to LABELS on top, in float32, drawn by torch's seed.

    Safetensors only, never code of the model's own. Raises ValueError in one line for a model
    that cannot be read.
    """
    from transformers import AutoModelForTokenClassification
    from transformers.utils import logging as reports

    path = model_path(encoder)
    level = reports.get_verbosity()
    reports.disable_progress_bar()  # type: ignore[no-untyped-call]
    reports.set_verbosity(logging.ERROR)  # that the classifier is new is no news here
    try:
        return cast(
            "PreTrainedModel",
            AutoModelForTokenClassification.from_pretrained(
                path,
                revision=revision or "main",
                num_labels=len(LABELS),
                id2label=dict(enumerate(LABELS)),
                label2id={label: number for number, label in enumerate(LABELS)},
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=Path(path).is_dir(),
                dtype="float32",
            ),
        )
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ValueError(f"train.encoder={encoder}: cannot be read: {first}") from error
    finally:
        reports.set_verbosity(level)


def tokenizer_file(encoder: str, revision: str | None) -> Path:
    """The encoder's tokenizer.json; raises ValueError if it has none."""
    path = Path(model_path(encoder))
    if not path.is_dir():
        from huggingface_hub import hf_hub_download

        try:
            path = Path(hf_hub_download(encoder, "tokenizer.json", revision=revision)).parent
        except (OSError, ValueError) as error:
            first = (str(error).strip().splitlines() or [repr(error)])[0]
            raise ValueError(f"train.encoder={encoder}: no tokenizer.json: {first}") from error
    if not (path / "tokenizer.json").is_file():
        raise ValueError(f"train.encoder={encoder}: no tokenizer.json in {path}")
    return path / "tokenizer.json"
