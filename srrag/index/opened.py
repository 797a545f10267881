"""Open an index with the engine that wrote it: this package's own files, or LanceDB."""

from __future__ import annotations

from pathlib import Path

from srrag.index.dense_search import DenseIndex
from srrag.index.lance_search import SETTINGS, LanceDense, LanceSparse
from srrag.index.sparse import SparseIndex
from srrag.index.words import TITLE_WEIGHT, WordIndex


def open_dense(folder: Path, threads: int = 1, device: str = "cpu") -> DenseIndex | LanceDense:
    """The vectors' index of a build; raises ValueError if its engine is not installed."""
    if (folder / SETTINGS).exists():
        return LanceDense(folder)
    return DenseIndex(folder, threads, device)


def open_sparse(folder: Path, title_weight: float = TITLE_WEIGHT) -> WordIndex:
    """The words' index of a build; raises ValueError if its engine is not installed."""
    if (folder / SETTINGS).exists():
        return LanceSparse(folder, title_weight)
    return SparseIndex(folder, title_weight)
