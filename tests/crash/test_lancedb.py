"""A root whose vectors and words LanceDB keeps: built by one setting, killed, asked, forgotten."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import jobs.ask
import jobs.verify
from srrag.config.compose import configure
from srrag.index.opened import SETTINGS, open_dense, open_sparse
from srrag.storage.store import Store
from tests.crash.damage import DAMAGES, damage
from tests.unit.runner.forgetting import (
    SECRET,
    build,
    document_of,
    forget,
    holding,
    traces,
    write_papers,
)

# Looked for, not imported: each process that collects this would import it, for seconds.
if find_spec("lancedb") is None:
    pytest.skip("the extra lancedb is not installed", allow_module_level=True)

LEAN = ["stages.tokens=null"]
LANCE = [*LEAN, "index=lancedb"]
KILLED = """
import os, sys
from pathlib import Path
from srrag.index import lance
from tests.unit.runner.forgetting import build
lance._filtered_by_grade = lambda table: os._exit(9)
build(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
"""


def stages(root: Path) -> list[str]:
    """The folders of the two indexes, hidden ones too."""
    return sorted(
        f"{name}/{path.name}" for name in ("dense", "sparse")
        for path in (root / "stages" / name).glob("*")
    )  # fmt: skip


def answer(root: Path, build_name: str = "default") -> dict[str, object]:
    asked = ["question=Does exercise therapy help heel pain?", f"root={root}", "pipeline=hybrid"]
    reply = jobs.ask.run(configure("ask", [*asked, f"build={build_name}"]))
    return {name: reply[name] for name in ("answer", "evidence")}


def test_killed_while_it_writes_then_asked_then_forgotten(tmp_path: Path) -> None:
    papers, root = write_papers(tmp_path / "papers"), tmp_path / "root"
    command = [sys.executable, "-c", KILLED, str(root), str(papers), *LANCE]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 9
    assert any("/." in name for name in stages(root)), "it died with a table half written"
    build(root, papers, *LANCE)
    made = stages(root)
    assert len(made) == 2 and not any("/." in name for name in made)
    again = build(root, papers, *LANCE)
    assert again["reused"]["dense"] == again["reused"]["sparse"] == 1 and stages(root) == made
    assert jobs.verify.run(configure("verify", [f"root={root}"]))["ok"]

    build(root, papers, *LEAN, "build=own")
    ours = answer(root, "own")
    assert ours["evidence"] and answer(root) == ours

    artifacts = Store(root).artifacts("default")
    assert all((artifacts[name] / SETTINGS).exists() for name in ("dense", "sparse"))
    assert open_sparse(artifacts["sparse"]).document_frequency(SECRET) > 0
    assert [path for path in holding(root, SECRET) if path.name == "terms.arrow"]
    rows = len(open_sparse(artifacts["sparse"]))
    document = document_of(root, f"{SECRET}.md")
    forget(root, f"doc_id='{document}'")
    assert not holding(root, SECRET) and traces(root, document) == []
    artifacts = Store(root).artifacts("default")
    words, vectors = open_sparse(artifacts["sparse"]), open_dense(artifacts["dense"])
    assert words.document_frequency(SECRET) == 0
    assert words.search([SECRET], 5)[0][0].to_pylist() == []
    assert 0 < len(words) < rows
    table = vectors._table  # type: ignore[union-attr]
    assert table.count_rows() == len(words)
    assert not set(made) & set(stages(root)), "a version that held it is gone with all its files"


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_table_is_found_and_made_again(tmp_path: Path, kind: str) -> None:
    papers, root = write_papers(tmp_path / "papers"), tmp_path / "root"
    build(root, papers, *LANCE)
    asked = answer(root)
    folder = Store(root).artifacts("default")["dense"]
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"]
    largest = max(files, key=lambda path: path.stat().st_size)
    damage(largest, kind)
    problems = jobs.verify.run(configure("verify", [f"root={root}"]))["problems"]
    assert any(largest.name in problem for problem in problems)
    build(root, papers, *LANCE, "repair=true")
    assert jobs.verify.run(configure("verify", [f"root={root}"]))["ok"]
    assert answer(root) == asked
