"""Imports run downwards only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CORE = {"core", "storage", "llm", "algo"}
DOMAIN = {"corpus", "extract", "graph", "index", "expand", "retrieve", "rerank", "answer",
          "engine", "export", "synthesis"}  # fmt: skip
ROOMS = {*DOMAIN, "model", "reading", "runner", "config"}
"""All of the core that answers questions; `serve` and `library` are its faces."""
LAB = {"lab.measure", "lab.judges", "lab.datasets", "lab.experiment", "lab.benchmark", "lab.report",
       "lab.review", "lab.train", "lab.fits"}  # fmt: skip
ALLOWED = {
    "algo": {"algo"},
    "core": CORE,
    "storage": {"storage", "core"},
    "llm": {"llm", "core"},
    "model": {"model", *CORE},
    "reading": {"reading", *CORE},
    "runner": {"runner", "corpus", "index", "engine", *CORE},
    "config": {"config", "runner", "corpus", "index", "engine", *CORE},
    **{name: {name, "model", "reading", *CORE} for name in DOMAIN},
    "serve": {"serve", *ROOMS, *CORE},
    "library": {"library", *ROOMS, *CORE, "lab.experiment"},  # what doctor estimates
    **{name: {*LAB, *ROOMS, *CORE} for name in LAB},
    **{
        f"systems.{name}": {f"systems.{name}", *LAB, *ROOMS, *CORE}
        for name in ("biogen", "rasrag", "ideprag", "rethinking")
    },
}
# The sideways edges, each with its reason.
SIDEWAYS = {
    "retrieve": {"index"},  # channels search indexes
    "rerank": {"index"},  # token vectors lie in an index
    "index": {"graph"},  # reads the merged facts
    "export": {"graph"},  # reads the merged facts
    # P, I, C and O of a question; what papers say of their studies; vectors of names
    "synthesis": {"expand", "extract", "graph"},
}
for _name, _others in SIDEWAYS.items():
    ALLOWED[_name] = ALLOWED[_name] | _others
FACES = [REPOSITORY / "srrag" / name for name in ("__init__.py", "__main__.py")]
"""They open the library and the jobs, which lie above all."""
MODULES = sorted(
    path
    for path in (REPOSITORY / "srrag").rglob("*.py")
    if path.name != "__init__.py" or path.read_text("utf-8")
)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def room(module: str) -> str:
    """The room of `srrag.corpus.parse` is corpus, of `srrag.lab.report.page` it is lab.report."""
    parts = module.split(".")
    return ".".join(parts[1:3] if parts[1] in ("lab", "systems") else parts[1:2])


def layer(path: Path) -> str:
    return room(".".join(path.relative_to(REPOSITORY).with_suffix("").parts))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_a_module_imports_only_what_lies_below(path: Path) -> None:
    names = imported(path)
    ours = {room(name) for name in names if name.startswith("srrag.")}
    if path not in FACES:
        assert ours <= ALLOWED[layer(path)], ours - ALLOWED[layer(path)]
    assert not any(name.split(".")[0] in ("jobs", "conf") for name in names)
    if layer(path) not in ("config", "lab.experiment"):
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
