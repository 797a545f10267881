"""A build makes no graph until it is asked for one; whoever needs it is told the command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from srrag.storage.store import Store
from tests.e2e.command import fault, srrag
from tests.unit.runner.deletion.test_delete import write_papers

GRAPH = {"schema_growth", "entities", "names", "communities", "tree", "graph"}
QUESTION = "question=Does taping reduce heel pain?"


def stages(root: Path) -> set[str]:
    return set(Store(root).read_pointer("default")["stages"])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    papers = write_papers(folder / "papers")
    srrag("build", f"root={folder / 'root'}", "corpus=folder", f"corpus.path={papers}")
    return folder / "root"


def test_the_graph_is_made_by_the_command_that_is_told_and_kept_until_text_is_named(
    root: Path, tmp_path: Path
) -> None:
    assert not stages(root) & GRAPH
    assert "graph" in srrag("status", f"root={root}")[1].split("none  plan=graph adds it")[0]
    summary, _ = srrag("ask", f"root={root}", QUESTION)
    assert summary["state"] == "answered"
    export = ("export", f"root={root}", "format=graphml", f"out={tmp_path / 'g'}")
    told = fault("ask", f"root={root}", "pipeline=hybrid_graph", QUESTION, code=2)
    assert told == fault(*export, code=2)
    assert told.startswith(
        f"error: build 'default' of root={root} has no graph; `srrag build root="
    )
    _, command, *arguments = shlex.split(told.split("`")[1])
    assert command == "build"
    made, _ = srrag("build", *arguments)
    assert made["reused"]["vectors"] == 1 and made["entities"] > 0
    assert stages(root) >= GRAPH
    srrag("ask", f"root={root}", "pipeline=hybrid_graph", QUESTION)
    assert srrag(*export)[0]["entities"] == made["entities"]
    srrag("build", *(each for each in arguments if each != "plan=graph"))
    assert stages(root) >= GRAPH, "an update keeps what stands"
    other = [each for each in arguments if each != "plan=graph"]
    srrag("build", *other, "build=other")
    assert "graph" not in Store(root).read_pointer("other")["stages"], "another build has its own"
    (root / "builds" / "default.json").write_text("{")
    srrag("build", *other, "repair=true")
    assert stages(root) >= GRAPH, "also where damage hides that there is one"
    srrag("build", *other, "plan=text")
    assert not stages(root) & GRAPH
