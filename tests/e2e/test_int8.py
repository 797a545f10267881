"""A root in int8: begun by name, built, and asked in the same arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store
from tests.e2e.command import srrag

pytestmark = pytest.mark.e2e


def test_a_root_in_int8_is_built_and_asked(tmp_path: Path) -> None:
    papers, root = tmp_path / "papers", tmp_path / "root"
    papers.mkdir()
    (papers / "ankle.md").write_text(
        "# Ankle sprain\n\nEarly weight bearing is recommended for adults with an ankle sprain.\n"
    )
    (papers / "heart.md").write_text("# Heart failure\n\nBeta blockers lower the heart rate.\n")
    begun, _ = srrag("init", f"root={root}", "arithmetic=int8")
    assert begun["embedder"] == "minilm_int8"
    assert set(begun["texts_per_cpu_s"]) == {"float32", "bfloat16", "int8"}
    srrag("build", "corpus=folder", f"corpus.path={papers}", f"root={root}")
    spec = read_json(Store(root).artifacts("default")["vectors"] / "manifest.json")["spec"]
    assert spec["encoder"]["backend"] == "torch-int8"
    answer, _ = srrag("ask", f"root={root}", "question=Is early weight bearing recommended?")
    assert "weight bearing" in answer["evidence"][0]["text"]
    assert answer["sentences"][0]["citations"] == [1]
