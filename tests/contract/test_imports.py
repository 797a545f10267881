"""Imports run downwards only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CORE = {"schema", "kinds", "errors", "step", "stage", "spec", "ids", "pipeline", "rows", "html",
        "degrade", "formats", "storage", "llm"}  # fmt: skip
DOMAIN = {"corpus", "extract", "graph", "index", "expand", "retrieve", "rerank", "answer",
          "evaluate", "engine", "export", "review", "train", "report", "benchmark"}  # fmt: skip
RUN = {"runner", "corpus", "index", "engine", *CORE}
ALLOWED = {
    "algo": {"algo"},
    "model": {"model", "algo", *CORE},
    "core": CORE,
    "storage": CORE,
    "llm": CORE,
    "runner": RUN,
    "config": {"config", *RUN},
    **{name: {name, "algo", "model", *CORE} for name in DOMAIN},
}
# The sideways edges: who reads an index, and who shares its reading of parts.
for name in ("retrieve", "rerank", "answer", "evaluate", "graph", "export"):
    ALLOWED[name] = ALLOWED[name] | {"index"}
for name in ("rerank", "answer", "evaluate"):
    ALLOWED[name] = ALLOWED[name] | {"retrieve"}
# Questions and evidence are read by the same schema and rules as documents are.
for name in ("expand", "retrieve", "answer"):
    ALLOWED[name] = ALLOWED[name] | {"extract"}
# A benchmark is made of windows, by the rules that read, answer and judge.
ALLOWED["benchmark"] = ALLOWED["benchmark"] | {"index", "extract", "answer", "evaluate"}
# A report shows an answer, and how it came about, as a reply does.
ALLOWED["report"] = ALLOWED["report"] | {"answer"}
MODULES = sorted((REPOSITORY / "srrag").rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def layer(path: Path) -> str:
    parts = path.relative_to(REPOSITORY / "srrag").parts
    return parts[0] if len(parts) > 1 else "core"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_a_module_imports_only_what_lies_below(path: Path) -> None:
    names = imported(path)
    ours = {name.split(".")[1] for name in names if name.startswith("srrag.")}
    if layer(path) in ALLOWED:
        assert ours <= ALLOWED[layer(path)], ours - ALLOWED[layer(path)]
    assert not any(name.split(".")[0] in ("jobs", "conf") for name in names)
    if layer(path) not in ("config", "experiment"):
        assert not any(name.split(".")[0] in ("hydra", "omegaconf") for name in names), path
    if layer(path) not in ("runner", "serve"):
        assert not any(name.split(".")[0] == "ray" for name in names), "Ray only in runner/, serve/"


def test_algorithms_know_no_table_and_no_model() -> None:
    for path in (REPOSITORY / "srrag" / "algo").glob("*.py"):
        banned = {"torch", "ray", "pyarrow", "transformers", "sentence_transformers"}
        assert not {name.split(".")[0] for name in imported(path)} & banned, path
