"""SR-RAG: distributed, evidence-based retrieval-augmented generation for medicine.

import srrag

with srrag.open("R") as root:
print(root.ask("Does early weight bearing help after an ankle sprain?"))
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srrag.library.root import Root

__version__ = "0.2.0"


def open(root: str | Path, build: str = "default") -> Root:
    """Open a finished build of a root: a folder, or an address like s3://bucket/root.

    Raises UsageError if there is none. Loads neither Hydra nor Ray nor a model.
    """
    from srrag.library.root import Root

    return Root(root, build)


def build(
    root: str | Path,
    *,
    corpus: str = "folder",
    path: str | Path | None = None,
    build: str = "default",
    overrides: Iterable[str] = (),
) -> Root:
    """Build a root from a corpus, or what it lacks, and open it.

    `corpus` is a file of conf/corpus (folder, jsonl, beir, pubmed, sample), `path` where the
    documents are, and `overrides` are those of `srrag build`. Runs in this process, without Ray.
    What was rejected, and why, is in `root.status()`.
    """
    from srrag.library.build import build_here
    from srrag.library.root import Root
    from srrag.storage.store import Store

    build_here(Store(root), build, corpus, path, overrides)
    return Root(root, build)


def run(job: str, *overrides: str) -> dict[str, Any]:
    """Do in this process what `srrag JOB overrides…` does; return the object that it prints.

    Raises UsageError for an unknown job, key or input, and what the job itself raises.
    """
    from importlib import import_module

    from srrag.config.words import JOBS

    summary: dict[str, Any] = import_module(JOBS).run(job, *overrides)
    return summary
