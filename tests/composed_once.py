"""Hydra composes a job once for all tests that choose the same; their paths are set afterwards.

Where tests choose differently it still reads each file of conf/ once.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf

from srrag.config.compose import SEARCHED
from srrag.config.words import CONFS

Compose = Callable[..., DictConfig]
Loaded = DictConfig | ListConfig
Load = Callable[..., Loaded]
_PATH = re.compile(r"([a-z_]+(?:\.[a-z_]+)*)=(/[\w/.-]+)")
"""An override of a plain key by a whole path, which Hydra takes for a text as it is."""

# What is kept is pickled in memory by the process that reads it, and no other: a copy by `deepcopy`
# takes longer.
_SOME = "/_"
"""What Hydra gets for such a path."""


def loaded_once(load: Load) -> Load:
    """Return OmegaConf's `load`, which parses each file below conf/ once a process."""
    kept: dict[str, bytes] = {}

    def loaded(file: IO[str]) -> Loaded:
        name = str(getattr(file, "name", file))
        if not any(map(Path(name).is_relative_to, CONFS)):
            return load(file)
        if name not in kept:
            kept[name] = pickle.dumps(load(file))
        found: Loaded = pickle.loads(kept[name])
        return found

    return loaded


def composed_once(compose: Compose) -> Compose:
    """Return Hydra's `compose`, which keeps what it made for each job and choice of this process.

    Composing takes 0.1 s and most tests differ in their folder alone. What is wrong is composed as
    it was said, so that Hydra's message names it; so is what changes where Hydra looks for files.
    """
    kept: dict[tuple[str, ...], bytes] = {}

    def composed(name: str, overrides: Sequence[str]) -> DictConfig:
        if any("hydra." in item and item != SEARCHED for item in overrides):
            return compose(name, overrides=list(overrides))
        found = [_PATH.fullmatch(item) for item in overrides]
        plain = [
            f"{each[1]}={_SOME}" if each else item
            for each, item in zip(found, overrides, strict=True)
        ]
        key = (name, *plain)
        try:
            if key not in kept:
                kept[key] = pickle.dumps(compose(name, overrides=plain))
        except HydraException:
            return compose(name, overrides=list(overrides))
        config: DictConfig = pickle.loads(kept[key])
        for place, path in {each[1]: each[2] for each in found if each}.items():
            if OmegaConf.select(config, place) == _SOME:  # no later override has changed it
                OmegaConf.update(config, place, path)
        return config

    return composed
