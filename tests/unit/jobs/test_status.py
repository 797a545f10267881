"""`srrag status` counts nodes by type as SR-RAG reports them (section 2.1)."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import jobs.status
from srrag.config.compose import configure
from srrag.corpus.chunk import ChunkBySections
from srrag.corpus.parse import ParseDocuments
from srrag.storage.store import Store
from tests.unit.runner.deletion.test_delete import PLAIN, build, write_papers


def test_types_are_counted_apart_from_documents_and_attributes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    build(root, write_papers(tmp_path / "papers"), *PLAIN)
    found = jobs.status.run(configure("status", [f"root={root}"]))
    folder = Store(root).artifacts("default")["entities"]
    edges = pq.read_table(folder / "edges.parquet", columns=["relation", "tail_id"]).to_pylist()
    values = {edge["tail_id"] for edge in edges if edge["relation"] == "has_attribute"}
    columns = ["entity_id", "type"]
    nodes = pq.read_table(folder / "entities.parquet", columns=columns).to_pylist()
    core = Counter(n["type"] for n in nodes if n["entity_id"] not in values)
    assert core.pop("Document") == 4
    assert found["nodes"] == len(nodes)
    assert found["entity_types"] == core
    assert found["core_entities"] == core.total() > 0
    attributes = Counter(n["type"] for n in nodes if n["entity_id"] in values)
    assert found["attribute_types"] == attributes and attributes
    assert Path(found["schema_report"]).is_file()
    said = capsys.readouterr().err.rpartition("build default in ")[2]
    share = 100 * core["Intervention"] / core.total()
    assert f"Intervention {core['Intervention']} ({share:.1f} %)" in said
    assert found["schema_report"] in said
    shown = f"{core.total()} entities ({100 * core.total() / len(nodes):.1f} %), 4 documents, "
    assert f"nodes: {shown}{attributes.total()} values of attributes" in said
    assert f"  nodes         {len(nodes):>10,}" in said
    assert said.count("entities") == 1, "one word, one meaning"


def test_it_says_what_another_version_would_make_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, papers = tmp_path / "root", write_papers(tmp_path / "papers")
    build(root, papers, *PLAIN)
    store = Store(root)

    def made_by(command: str) -> list[str] | None:
        with store.lock():
            store.write_pointer("default", store.read_pointer("default") | {"command": command})
        found = jobs.status.run(configure("status", [f"root={root}"]))
        return None if found["made_anew"] is None else [*found["made_anew"]]

    typed = shlex.join(["srrag", "build", f"corpus.path={papers}", *PLAIN])
    assert made_by(typed) == []
    assert "this version makes no stage again" in capsys.readouterr().err
    assert made_by("a program of my own") is None
    assert made_by(f"{typed} no_such_key=1") is None
    assert "cannot be told from its command" in capsys.readouterr().err
    monkeypatch.setattr(ChunkBySections, "version", ChunkBySections.version + 1)
    assert made_by(typed) == ["chunks"]
    assert "this version would make again: chunks\n" in capsys.readouterr().err
    monkeypatch.setattr(ParseDocuments, "version", ParseDocuments.version + 1)
    anew = made_by(typed) or []
    assert anew[0] == "parsed" and "triples" in anew and "raw" not in anew
    stages = len(store.read_pointer("default")["stages"])
    assert f"would make again: {len(anew)} of {stages} stages\n" in capsys.readouterr().err
