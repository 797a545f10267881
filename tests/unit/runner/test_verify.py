from __future__ import annotations

from pathlib import Path

from srrag.runner.verify import verify
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.store import Store
from tests.unit.runner.test_update import DOCUMENTS, build


def test_a_build_of_other_inputs_than_stand_is_told(tmp_path: Path) -> None:
    """As when a run ended after a part was made again and before what reads it."""
    build(tmp_path, DOCUMENTS)
    store = Store(tmp_path)
    assert verify(store, "default")["problems"] == []
    folder = store.artifacts("default")["communities"]
    manifest = read_json(folder / "manifest.json")
    read = manifest["contents"]["entities"]
    read[next(iter(read))] = "0" * 64
    commit_json(folder / "manifest.json", manifest, sealed=True)
    (problem,) = verify(store, "default")["problems"]
    assert problem.startswith("communities:")
    assert "other entities than stand; run the build again" in problem
    build(tmp_path, DOCUMENTS)
    assert verify(store, "default")["problems"] == []
