"""SR-RAG: distributed, evidence-based retrieval-augmented generation for medicine.

import srrag

with srrag.open("R") as root:
print(root.ask("Does early weight bearing help after an ankle sprain?"))
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srrag.library.root import Root

__version__ = "0.1.0"


def open(root: str | Path, build: str = "default") -> Root:
    """Open a finished build of a root: a folder, or an address like s3://bucket/root.

    Raises UsageError if there is none. Loads neither Hydra nor Ray nor a model.
    """
    from srrag.library.root import Root

    return Root(root, build)
