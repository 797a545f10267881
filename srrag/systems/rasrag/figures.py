"""The figures that a passage speaks of, found by their names (RASRAG, section 1.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from srrag.core.schema import columns
from srrag.core.step import Function, Place, Step
from srrag.storage.mapped_table import map_table
from srrag.storage.mirror import pull_build

FIGURES = pa.list_(pa.struct(columns("evidence_id name caption image")))
"""`image` is the name of the file, "" if the text gives none."""

_NAME = re.compile(r"\b(?:Figure|Fig\.) ?(\d+(?:[.\-]\d+)*)")


@dataclass(frozen=True, kw_only=True)
class FindFigures(Step):
    """Add the figures that each piece of evidence names, each once, in order.

    A name is looked up among the captions of the passage's book, in the tree of a textbook; without
    a book there are no figures.
    """

    reads: ClassVar[tuple[str, ...]] = ("evidence",)
    writes: ClassVar[pa.Schema] = pa.schema([pa.field("figures", FIGURES)])

    tree: str = "forest"

    def needs(self) -> tuple[str, ...]:
        """The tree, which holds the captions."""
        return (self.tree,)

    def open(self, at: Place) -> Function:
        """Read the captions."""
        folder = pull_build(at.artifact(self.tree))
        figures, documents = (_rows(folder / name) for name in ("figures.arrow", "documents.arrow"))
        known = {(row["book"], row["number"]): row for row in figures}
        books = {row["doc_id"]: row["book"] for row in documents}

        def run(batch: pa.Table) -> pa.Table:
            found = [
                [
                    {"evidence_id": item["evidence_id"], **_shown(row)}
                    for item in evidence
                    for number in named(item["text"])
                    if (row := known.get((books.get(item["doc_id"], ""), number))) is not None
                ]
                for evidence in batch["evidence"].to_pylist()
            ]
            return batch.append_column(self.writes.field(0), pa.array(found, FIGURES))

        return run


def named(text: str) -> Sequence[str]:
    """The numbers of the figures that a text names, each once, in order."""
    return list(dict.fromkeys(match.replace("-", ".") for match in _NAME.findall(text)))


def _shown(row: dict[str, str]) -> dict[str, str]:
    return {"name": f"Figure {row['number']}", "caption": row["caption"], "image": row["image"]}


def _rows(path: Path) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = map_table(path).to_pylist()
    return rows
