from __future__ import annotations

from pathlib import Path

from srrag.runner.verify import verify
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store
from tests.unit.runner.test_update import DOCUMENTS, build


def test_a_build_of_other_inputs_than_stand_is_told(tmp_path: Path) -> None:
    """As when a run ended after a part was made again and before what reads it."""
    build(tmp_path, DOCUMENTS)
    store = Store(tmp_path)
    assert verify(store, "default")["problems"] == []
    folder = store.artifacts("default")["communities"]
    read = read_json(folder / "manifest.json")["contents"]["entities"]
    text = (folder / "manifest.json").read_text("utf-8")
    sha256 = next(iter(read.values()))
    (folder / "manifest.json").write_text(text.replace(sha256, "0" * len(sha256)), "utf-8")
    (problem,) = verify(store, "default")["problems"]
    assert problem.startswith("communities:")
    assert "other entities than stand; run the build again" in problem
    build(tmp_path, DOCUMENTS)
    assert verify(store, "default")["problems"] == []
