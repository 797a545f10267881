"""A folder that `srrag train_encoder` wrote: its revision and training data."""

from __future__ import annotations

from pathlib import Path

from srrag.core.provenance import Fitted, read_fitted
from srrag.storage.atomic_write import read_json
from srrag.storage.sealed_folder import check_sealed, sealed_revision

FACTS = "encoder.json"
"""The file that names an encoder's base model and training data."""
QUERY_TOWER = "query"
"""The folder of the queries' model within that of the passages', if there are two."""


def is_trained(model: str) -> bool:
    """Whether a model is a folder that `srrag train_encoder` wrote."""
    return (Path(model) / FACTS).is_file()


def trained_revision(model: str) -> str | None:
    """The sha256 of a trained folder's manifest, None for any other model.

    Raises ValueError for a trained folder without its manifest.
    """
    return sealed_revision(Path(model)) if is_trained(model) else None


def check_trained(model: str, revision: str | None) -> None:
    """Raise ValueError if a file of a trained folder is not the one of this revision."""
    if is_trained(model):
        check_sealed(Path(model), revision)


def encoder_fitted(model: str) -> tuple[Fitted, ...]:
    """What a trained encoder was fitted on; empty for a model that was trained elsewhere."""
    if not is_trained(model):
        return ()
    path = Path(model) / FACTS
    return (read_fitted(read_json(path), "embedder", path),)
