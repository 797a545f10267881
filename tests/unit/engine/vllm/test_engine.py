"""The vLLM engine's identity, and what needs no vLLM: guides, folders, deaths of parents."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import psutil
import pydantic
import pytest
from safetensors.numpy import save_file

from srrag.core.spec import build, spec
from srrag.engine.vllm.engine import VllmEngine
from srrag.engine.vllm.session import guide
from srrag.llm.completion import Answer
from srrag.storage.manifest import folder_revision


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a model's folder holds, as far as identity goes."""
    path = tmp_path / "models" / "small"
    path.mkdir(parents=True)
    write_weights(path, 0.0)
    (path / "config.json").write_text('{"model_type": "qwen2"}')
    return path


def write_weights(path: Path, value: float) -> None:
    tensors = {"a": np.zeros((64, 64), np.float32), "b": np.full(8, value, np.float32)}
    save_file(tensors, path / "model.safetensors")


def test_a_folder_is_known_by_its_content_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    here = VllmEngine(model=str(folder))
    there = Path(shutil.copytree(folder, tmp_path / "elsewhere" / "small"))
    (there / "README.md").write_text("of no matter")
    assert spec(VllmEngine(model=str(there))) == spec(here)
    assert here.model == "small"
    assert here.name == f"vllm: small@{folder_revision(folder)}"
    assert spec(here) == {
        "_target_": "VllmEngine", "model": "small", "revision": here.revision,
    }  # fmt: skip
    assert pickle.loads(pickle.dumps(here)) == here


@pytest.mark.parametrize("change", ["weights", "config", "template", "rename"])
def test_a_change_in_place_is_another_model(folder: Path, change: str) -> None:
    before = folder_revision(folder)
    if change == "weights":
        size = (folder / "model.safetensors").stat().st_size
        write_weights(folder, 1e-3)
        assert (folder / "model.safetensors").stat().st_size == size
    elif change == "config":
        (folder / "config.json").write_text('{"model_type": "qwen3"}')
    elif change == "template":
        (folder / "chat_template.jinja").write_text("{{ messages }}")
    else:
        (folder / "model.safetensors").rename(folder / "other.safetensors")
    assert folder_revision(folder) != before


def test_where_it_runs_is_no_identity() -> None:
    plain = VllmEngine(model="org/name", revision="c0ffee")
    placed = VllmEngine(
        model="org/name", revision="c0ffee", device="cpu", replicas=3, tensor_parallel=2,
        max_model_len=512, max_num_seqs=8, enforce_eager=True, folder="/somewhere/name",
    )  # fmt: skip
    assert spec(plain) == spec(placed)
    assert (plain.concurrency, placed.concurrency) == (512, 16)
    assert (plain.worker().gpus, placed.worker().gpus) == (1.0, 0.0)
    assert spec(VllmEngine(model="org/name", revision="c0ffee", dtype="float16")) != spec(plain)
    tuned = VllmEngine(model="org/name", revision="1", lora="org/adapter", lora_revision="2")
    assert tuned.name == "vllm: org/name@1 + org/adapter@2"


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"model": "org/name"}, "engine.revision"),
        ({"model": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"model": "org/name", "revision": "1", "device": "tpu"}, "engine.device"),
        ({"model": "org/name", "revision": "1", "replicas": 0}, "engine.replicas"),
        ({"model": "org/name", "revision": "1", "lora": "org/adapter"}, "engine.lora_revision"),
    ],
)
def test_a_wrong_field_is_named_in_one_line(fields: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError) as caught:
        build({"_target_": "VllmEngine", **fields})
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_that_are_none_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(ValueError, match="not a safetensors file"):
        folder_revision(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="no weights as safetensors"):
        folder_revision(folder)


class Item(Answer):
    zeta: Annotated[str, pydantic.Field(min_length=1, max_length=9)]
    maxLength: Literal["a"]


class Shape(Answer):
    last: Annotated[list[Item], pydantic.Field(max_length=3)]
    first: Annotated[int, pydantic.Field(ge=1, le=9)]


def test_a_guide_keeps_order_and_bounds_but_for_lengths_of_strings() -> None:
    shape = json.loads(guide(Shape))
    assert list(shape["properties"]) == ["last", "first"]
    assert shape["properties"]["last"]["maxItems"] == 3
    assert shape["properties"]["first"]["maximum"] == 9
    item = shape["$defs"]["Item"]
    assert item["properties"]["zeta"] == {"type": "string"}
    assert set(item["properties"]) == {"zeta", "maxLength"}
    assert item["required"] == ["zeta", "maxLength"]


def test_a_guide_allows_the_listed_values_alone() -> None:
    shape = json.loads(guide(Shape, (("Item.zeta", ("one", "two")),)))
    assert shape["$defs"]["Item"]["properties"]["zeta"]["enum"] == ["one", "two"]


def test_a_folder_without_a_chat_template_is_refused_at_the_start(folder: Path) -> None:
    engine = VllmEngine(model=str(folder), device="cpu")
    with pytest.raises(ValueError, match=r"engine\.model=.*: no chat template") as raised:
        engine._check_folders()
    assert "\n" not in str(raised.value)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    VllmEngine(model=str(folder), device="cpu")._check_folders()


_CHILD = """
import pickle, subprocess, sys, time
if sys.argv[1:]:
    pickle.loads(bytes.fromhex(sys.argv[1]))
    print("tied", flush=True)
else:
    from srrag.engine.vllm.engine import EndsWithParent
    word = pickle.dumps(pickle.loads(pickle.dumps(EndsWithParent()))).hex()
    child = subprocess.Popen([sys.executable, __file__, word])
    print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_process_that_unpickles_the_word_ends_with_the_one_that_made_it(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(_CHILD)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    lines = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
    [pid] = lines - {"tied"}
    child = psutil.Process(int(pid))
    parent.kill()
    parent.wait()
    child.wait(timeout=60)
    assert not psutil.pid_exists(int(pid))
