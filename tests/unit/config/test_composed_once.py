"""What tests compose by is what the command composes by."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from tests.composed_once import composed_once

remembered = composed_once(compose)
CASES = [
    ("build", ["root=/r", "corpus=folder", "corpus.path=/a/b-1.c", "+stages.dense.run.rows=3"]),
    ("ask", ["question=_", "root=/r", "pipeline=srrag", "out=/o"]),
    ("ask", ["root=/a", "root=/r", "out=/o", "out=null", "question=_"]),
    ("evaluate", ["root=R", "bench=beir", "bench.path=/p", "root=/s"]),
]


@pytest.mark.parametrize(("job", "overrides"), CASES)
def test_it_composes_what_hydra_does(job: str, overrides: list[str], tmp_path: Path) -> None:
    elsewhere = [item.replace("root=/", f"root={tmp_path}/") for item in overrides]
    with initialize_config_module("conf", version_base=None):
        for asked in (overrides, elsewhere, overrides):
            found, expected = remembered(job, asked), compose(job, overrides=asked)
            assert found == expected and OmegaConf.is_struct(found)
            assert plain(found) == plain(expected)
            found.root = "changed"
            assert remembered(job, asked).root == expected.root, "each gets its own"


@pytest.mark.parametrize("wrong", ["corpsu=/x", "corpus=/x", "root.x=/y"])
def test_what_is_wrong_is_told_as_ever(wrong: str) -> None:
    with initialize_config_module("conf", version_base=None):
        said = []
        for each in (compose, remembered, remembered):
            with pytest.raises(HydraException) as caught:
                each("build", overrides=["root=/r", wrong])
            said.append(str(caught.value))
    assert len(set(said)) == 1


def plain(config: DictConfig) -> object:
    return OmegaConf.to_container(config, resolve=True)
