from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import srrag
from srrag.config.compose import configure
from srrag.config.words import read_choices
from srrag.core.errors import UsageError
from srrag.core.spec import spec
from srrag.model import linear
from srrag.model.encoder import Encoder
from srrag.model.linear import chosen, priced, rates
from srrag.runner.pipeline_run import settled_embedder
from srrag.runner.repair import mend_marker
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store
from tests.conftest import linked
from tests.unit.runner.test_update import DOCUMENTS, build

FAST, SLOW = {"float32": 50.0, "bfloat16": 90.0}, {"float32": 50.0, "bfloat16": 11.0}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says what a machine would measure; no test depends on this one."""
    return lambda found: monkeypatch.setattr(linear, "rates", lambda: found)


def backend(root: Path, *overrides: str, job: str = "build") -> str:
    return str(configure(job, [f"root={root}", *overrides])["embedder"]["backend"])


def test_a_root_keeps_what_is_fast_where_it_began(tmp_path: Path, machine: Any) -> None:
    root = tmp_path / "R"
    assert backend(root) == "torch" and not root.exists()
    machine(FAST)
    told = srrag.run("init", f"root={root}")
    assert told["embedder"] == "minilm_bf16" and told["texts_per_cpu_s"] == FAST
    machine(SLOW)
    assert srrag.run("init", f"root={root}")["embedder"] == "minilm_bf16", "another machine"
    assert Store(root).settled() == {"embedder": "minilm_bf16", "texts_per_cpu_s": FAST}
    assert backend(root) == "torch-bf16"
    assert backend(root, "question=x", job="ask") == "torch-bf16"
    assert configure("ask", [f"root={root}", "question=x", "+embedder.max_tokens=64"])["pipeline"][
        "rank"]["encode"]["encoder"] == {
            "_target_": "Encoder", "backend": "torch-bf16", "max_tokens": 64,
        }  # fmt: skip
    assert backend(root, "embedder=minilm") == "torch", "what a command names counts"
    with pytest.raises(UsageError, match="has embedder=minilm_bf16; another"):
        srrag.run("init", f"root={root}", "arithmetic=float32")


def test_a_slow_machine_and_a_named_choice(tmp_path: Path, machine: Any) -> None:
    machine(SLOW)
    assert srrag.run("init", f"root={tmp_path / 'A'}")["embedder"] == "minilm"
    told = srrag.run("init", f"root={tmp_path / 'B'}", "arithmetic=int8")
    assert told["embedder"] == "minilm_int8" and backend(tmp_path / "B") == "torch-int8"
    with pytest.raises(UsageError, match="arithmetic=fp8: auto, float32"):
        srrag.run("init", f"root={tmp_path / 'C'}", "arithmetic=fp8")


def test_a_root_that_was_begun_without_it_stays_as_it_is(tmp_path: Path, machine: Any) -> None:
    machine(FAST)
    root = tmp_path / "R"
    build(root, DOCUMENTS)
    stood = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert srrag.run("init", f"root={root}")["embedder"] == ""
    with pytest.raises(UsageError, match="begun with another embedder; another needs"):
        srrag.run("init", f"root={root}", "arithmetic=float32")
    assert settled_embedder(root) is None and backend(root) == "torch"
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == stood
    choices = tmp_path / "srrag.yaml"
    assert choices.read_text().startswith("# For all jobs") and not read_choices(choices)
    choices.write_text("pipeline: bm25\n")
    assert srrag.run("init", f"root={root}")["embedder"] == ""
    assert read_choices(choices) == {"pipeline": "bm25"}, "what stands is kept"


def test_a_built_root_names_the_arithmetic_that_it_keeps(sample_root: Path, tmp_path: Path) -> None:
    root = linked(sample_root, tmp_path / "R", "jobs")
    for given in ((), ("arithmetic=float32",)):
        assert srrag.run("init", f"root={root}", *given)["embedder"] == "minilm"
    with pytest.raises(UsageError, match="has embedder=minilm; another needs another root"):
        srrag.run("init", f"root={root}", "arithmetic=bfloat16")


def test_a_damaged_marker_takes_no_choice_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    folder = store.stage_dir("vectors", "f")
    step = {"_target_": "EncodeWindows", "encoder": spec(Encoder(backend="torch-bf16"))}
    commit_json(folder / "manifest.json", {"spec": step})
    store.write_pointer("default", {"stages": {"vectors": {"fingerprint": "f"}}})
    assert settled_embedder(tmp_path) is None, "a sound marker without a choice"
    for text in ("{", "[]"):
        (tmp_path / "srrag.json").write_text(text)
        assert settled_embedder(tmp_path) == "minilm_bf16"
    mend_marker(store)
    assert store.settled() == {"embedder": "minilm_bf16"}
    commit_json(folder / "manifest.json", {"spec": {**step, "encoder": spec(Encoder(model="/m"))}})
    (tmp_path / "srrag.json").unlink()
    assert settled_embedder(tmp_path) is None, "another model is no arithmetic of this one"


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_MEASURED_ROUNDS", 1)
    found = rates()
    assert set(found) == {"float32", "bfloat16", "int8"} and min(found.values()) > 0
    assert chosen(found) in found


def test_bfloat16_has_to_be_clearly_faster() -> None:
    assert chosen({"float32": 50.0, "bfloat16": 60.0}) == "float32"
    assert chosen({"float32": 50.0, "bfloat16": 60.1}) == "bfloat16"
    assert chosen({"float32": 50.0, "bfloat16": 55.0, "int8": 500.0}) == "float32", "only if named"
    assert priced({**FAST, "int8": 60.0}) == (
        "50 texts a CPU second in float32, 90 in bfloat16 (1.8 ×), 60 in int8 (1.2 ×)"
    )
