"""A root that forgets one of its documents, and looks for what is left of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import jobs.build
import jobs.forget
import jobs.verify
from srrag.config.compose import configure
from srrag.graph.entities import read_rows
from srrag.storage.store import Store

LEFT_OUT = ("vectors", "titles", "dense", "tokens", "graph", "communities", "tree", "windows")
WITHOUT_ENCODER = ["plan=graph", *(f"stages.{name}=null" for name in LEFT_OUT)]
PLAIN = [*WITHOUT_ENCODER, "stages.units=null", "stages.sparse=null"]
TREATMENTS = ("ibuprofen", "exercise therapy", "taping", "zorbamycin")
SECRET = "zorbamycin"


def write_papers(folder: Path, treatments: Sequence[str] = TREATMENTS) -> Path:
    folder.mkdir(exist_ok=True)
    for treatment in treatments:
        text = (
            f"# Trial of {treatment}\n\n## Methods\n\nForty-eight adults with heel pain were "
            f"randomised to {treatment} or placebo.\n\n## Results\n\n{treatment.capitalize()} "
            f"reduced pain compared with placebo. We recommend that {treatment} should be offered "
            "to adults with heel pain.\n"
        )
        (folder / f"{treatment}.md").write_text(text, "utf-8")
    return folder


def build(root: Path, papers: Path, *options: str) -> dict[str, Any]:
    config = configure(
        "build", ["corpus=folder", f"corpus.path={papers}", f"root={root}", *options]
    )
    return jobs.build.run({**config, "command": "test"})


def forget(root: Path, *options: str) -> dict[str, Any]:
    return jobs.forget.run(configure("forget", [f"root={root}", *options]))


def traces(root: Path, document: str) -> list[str]:
    found: dict[str, Any] = jobs.verify.run(asked_of(root, f"'{document}'"))
    assert found["ok"] == (not found["problems"])
    assert found["problems"] == found["traces"]
    return list(found["traces"])


def document_of(root: Path, name: str) -> str:
    store = Store(root)
    for name_, parts in store.read_pointer("default")["stages"].items():
        if name_ == "documents":
            for part in parts["parts"]:
                table = store.read_part("documents", parts["fingerprint"], part)
                for found in table.to_pylist():
                    if found["source_id"] == name:
                        return str(found["doc_id"])
    raise AssertionError(name)


def words_of(path: Path) -> str:
    """All that a file holds, decompressed."""
    if path.suffix == ".parquet":
        return str(pq.read_table(path, partitioning=None).to_pylist())
    if path.suffix == ".arrow":
        return str(pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist())
    return path.read_bytes().decode("latin-1")


def holding(root: Path, word: str) -> list[Path]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return [path for path in files if word in words_of(path).lower()]


def tables(root: Path, build: str = "default") -> dict[str, list[dict[str, Any]]]:
    """The rows of every stage, and of the graph, whatever the names of the parts."""
    store = Store(root)
    found: dict[str, list[dict[str, Any]]] = {}
    for name, entry in store.read_pointer(build)["stages"].items():
        paths = [store.part_path(name, entry["fingerprint"], p) for p in entry.get("parts", [])]
        if name == "entities":
            folder = store.stage_dir(name, entry["fingerprint"])
            for each in ("entities.parquet", "edges.parquet"):
                rows = read_rows(folder / each).to_pylist()
                found[name] = sorted([*found.get(name, []), *rows], key=str)
        for path in paths:
            rows = pq.read_table(path, partitioning=None).to_pylist()
            found[name] = sorted([*found.get(name, []), *rows], key=str)
    return found


def asked_of(root: Path, documents: str) -> dict[str, Any]:
    """What `srrag verify` is given."""
    return configure("verify", [f"root={root}", f"forgotten={documents}"])
