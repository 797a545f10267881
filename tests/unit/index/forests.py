"""Small books made by hand: documents, big and small units, vectors, and the forest of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from srrag.core.schema import UNITS
from srrag.core.step import Place
from srrag.index.tokens import BuildTokenIndex
from srrag.model.encoder import Encoder
from srrag.systems.rasrag.textbook_tree import BuildTextbookTree
from tests.unit.index.tables import documents, hashed, row, vectors, write

DIMENSION = 384
Book = Mapping[str, Sequence[Sequence[Sequence[float]]]]
"""By chapter: its BTUs, each a list of the first numbers of its STUs' vectors."""


def unit(numbers: Sequence[float]) -> np.ndarray:
    """A vector of length 1 that starts with these numbers."""
    vector = np.zeros(DIMENSION, np.float32)
    vector[: len(numbers)] = numbers
    return vector / max(1e-9, float(np.linalg.norm(vector)))


def stu(chapter: str, btu: int, number: int) -> str:
    """The id of an STU."""
    return hashed((chapter, btu, number))


def parts(book: Book, folder: Path, name: str = "p") -> dict[str, Path]:
    """A part of each relation; each chapter is one document."""
    papers, big, small, ids, matrix = [], [], [], [], []
    for chapter, btus in book.items():
        doc_id = hashed(("doc", chapter))
        place = {"book": "B", "chapter": chapter, "chapter_title": f"Chapter {chapter}"}
        papers.append(
            {
                "doc_id": doc_id,
                "source_id": f"s{chapter}",
                "title": f"Section {chapter}",
                "metadata": json.dumps(place) if chapter.isdigit() else "{}",
            }
        )
        for n, stus in enumerate(btus):
            btu_id = hashed((chapter, n))
            big.append(
                row(UNITS, unit_id=btu_id, doc_id=doc_id, char_start=1000 * n, text=f"btu {n}")
            )
            for m, numbers in enumerate(stus):
                ids.append(stu(chapter, n, m))
                matrix.append(unit(numbers))
                small.append(
                    row(
                        UNITS,
                        unit_id=ids[-1],
                        doc_id=doc_id,
                        parent_id=btu_id,
                        char_start=1000 * n + m,
                    )
                )
    tokens = [np.zeros((0, DIMENSION), np.int8)] * len(ids)
    return {
        "documents": documents(papers, folder / f"d-{name}.parquet"),
        "chunks": write(big, UNITS, folder / f"c-{name}.parquet"),
        "windows": write(small, UNITS, folder / f"w-{name}.parquet"),
        "vectors": vectors(ids, np.array(matrix), folder / f"v-{name}.parquet", tokens),
    }


def forest_place(book: Book, folder: Path) -> Place:
    """The place of a book's forest and of its vectors."""
    made = {name: [path] for name, path in parts(book, folder).items()}
    for name in ("forest", "tokens"):
        (folder / name).mkdir()
    BuildTextbookTree(encoder=Encoder()).build(made, folder / "forest", Place())
    BuildTokenIndex().build({"vectors": made["vectors"]}, folder / "tokens", Place())
    return Place(artifacts={name: folder / name for name in ("forest", "tokens")})
