"""Small dense and sparse indexes of graded windows, for the tests of what searches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srrag.core.schema import UNITS
from srrag.core.step import Place
from srrag.index.dense import BuildDenseIndex
from srrag.index.sparse import BuildSparseIndex
from tests.unit.index.tables import hashed, row, vectors, write

WORDS = ("knee", "hip", "pain", "gait", "load", "rest", "sprain", "tear")
DIMENSION = 8


def unit_rows(rows: int, seed: int) -> np.ndarray:
    """Vectors of length 1."""
    matrix = np.random.default_rng(seed).normal(size=(rows, DIMENSION)).astype(np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


@dataclass(frozen=True)
class Corpus:
    """Windows with their grades, texts and vectors, and the place of their indexes."""

    ids: Sequence[str]
    grades: Sequence[str]
    matrix: np.ndarray
    place: Place


def corpus(folder: Path, grades: Sequence[str], seed: int = 0) -> Corpus:
    """Index a window for each grade, its text and vector drawn by the seed."""
    draw = np.random.default_rng(seed)
    ids = [hashed((seed, n)) for n in range(len(grades))]
    matrix = unit_rows(len(grades), seed)
    texts = [" ".join(draw.choice(WORDS, size=draw.integers(1, 9))) for _ in ids]
    rows = [
        row(UNITS, unit_id=key, grade=grade, text=text)
        for key, grade, text in zip(ids, grades, texts, strict=True)
    ]
    for name in ("windows", "vectors", "dense", "sparse"):
        (folder / name).mkdir(parents=True)
    inputs = {
        "windows": [write(rows, UNITS, folder / "windows" / "p.parquet")],
        "vectors": [vectors(ids, matrix, folder / "vectors" / "p.parquet")],
    }
    BuildDenseIndex().build(inputs, folder / "dense", Place())
    BuildSparseIndex().build(inputs, folder / "sparse", Place())
    return Corpus(
        ids, grades, matrix, Place(artifacts={n: folder / n for n in ("dense", "sparse")})
    )
