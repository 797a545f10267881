"""Imports run downwards only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CORE = {"schema", "kinds", "errors", "step", "stage", "spec", "ids", "pipeline", "rows", "html",
        "degrade", "bind", "isolate", "formats", "hits", "provenance", "units", "grades", "ranking",
        "ontology", "standing", "storage", "llm", "figures"}  # fmt: skip
DOMAIN = {"corpus", "extract", "graph", "index", "expand", "retrieve", "rerank", "answer",
          "evaluate", "engine", "export", "review", "train", "report", "benchmark"}  # fmt: skip
RUN = {"runner", "corpus", "index", "engine", *CORE}
ALLOWED = {
    "algo": {"algo"},
    "model": {"model", "algo", *CORE},
    "mentions": {"mentions", "algo", *CORE},
    "reading": {"reading", "algo", *CORE},
    "core": {*CORE, "algo"},
    "storage": CORE,
    "llm": CORE,
    "runner": RUN,
    "config": {"config", *RUN},
    **{name: {name, "algo", "model", "mentions", "reading", *CORE} for name in DOMAIN},
}
# The sideways edges, each with its reason.
SIDEWAYS = {
    "retrieve": {"index"},  # channels search indexes
    "rerank": {"index"},  # token vectors lie in an index
    "expand": {"index"},  # rules reword a question by the words of an index
    "answer": {"index"},  # findings lie in an index
    "benchmark": {"answer"},  # made by the rules that answer
    "index": {"graph"},  # reads the merged facts
    "export": {"graph"},  # reads the merged facts
    "report": {"answer"},  # shows an answer as the API does
}
for _name, _others in SIDEWAYS.items():
    ALLOWED[_name] = ALLOWED[_name] | _others
FACES = [REPOSITORY / "srrag" / name for name in ("__init__.py", "__main__.py")]
"""They open the library and the jobs, which lie above all."""
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
    if layer(path) in ALLOWED and path not in FACES:
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


def test_jobs_compose_call_and_print() -> None:
    for path in (REPOSITORY / "jobs").glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 80, path
