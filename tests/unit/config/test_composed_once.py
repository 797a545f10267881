"""What tests compose by is what the command composes by."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from srrag.config.compose import configure
from srrag.config.words import CONF
from tests.composed_once import composed_once, loaded_once
from tests.conftest import REPOSITORY

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
    with initialize_config_dir(str(CONF), version_base=None):
        for asked in (overrides, elsewhere, overrides):
            found, expected = remembered(job, asked), compose(job, overrides=asked)
            assert found == expected and OmegaConf.is_struct(found)
            assert plain(found) == plain(expected)
            found.root = "changed"
            assert remembered(job, asked).root == expected.root, "each gets its own"


@pytest.mark.parametrize("wrong", ["corpsu=/x", "corpus=/x", "root.x=/y"])
def test_what_is_wrong_is_told_as_ever(wrong: str) -> None:
    with initialize_config_dir(str(CONF), version_base=None):
        said = []
        for each in (compose, remembered, remembered):
            with pytest.raises(HydraException) as caught:
                each("build", overrides=["root=/r", wrong])
            said.append(str(caught.value))
    assert len(set(said)) == 1


def test_each_reader_of_a_file_gets_its_own(tmp_path: Path) -> None:
    load, file = loaded_once(OmegaConf.load), REPOSITORY / "conf" / "ask.yaml"
    told = yaml.safe_load(file.read_text("utf-8"))
    for _ in range(2):
        with file.open(encoding="utf-8") as opened:
            found = load(opened)
        assert OmegaConf.to_container(found) == told
        OmegaConf.update(found, "root", "changed")
    (other := tmp_path / "a.yaml").write_text("a: 1")
    assert load(other) == {"a": 1}
    other.write_text("a: 2")
    assert load(other) == {"a": 2}, "what a test writes is read again"


def plain(config: DictConfig) -> object:
    return OmegaConf.to_container(config, resolve=True)


def test_four_threads_compose_at_once() -> None:
    barrier = Barrier(4)

    def run(number: int) -> int:
        barrier.wait()
        return int(configure("ask", ["root=R", "question=x", f"budget.max_tokens={number}"])
                   ["budget"]["max_tokens"])  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [0, 1, 2, 3]


def test_a_program_keeps_its_own_hydra(tmp_path: Path) -> None:
    with initialize_config_dir(str(tmp_path), version_base=None):
        own = GlobalHydra.instance().hydra
        configure("ask", ["root=R", "question=x"])
        assert GlobalHydra.instance().hydra is own
