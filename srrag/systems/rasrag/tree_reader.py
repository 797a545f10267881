"""The opened forest of a textbook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.storage.mapped_table import Lookup, map_table
from srrag.storage.mirror import pull_build
from srrag.systems.rasrag.textbook_tree import BTU_VECTORS, BTUS, ROOTS, STUS, TITLE_VECTORS

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class TreeForest:
    """Roots, BTUs and STUs by number, in reading order: those of a parent are a range.

    `first_btu` (roots + 1) and `first_stu` (BTUs + 1) delimit the children; `btu_vectors`
    (BTUs, dim) and `title_vectors` (titles, dim) have length 1; `title_root` is the root of each
    title.
    """

    def __init__(self, folder: Path) -> None:
        """Map the files."""
        pull_build(folder)
        self.roots = map_table(folder / ROOTS)
        self.btus = map_table(folder / BTUS)
        self.stu_ids: pa.Array = map_table(folder / STUS)["unit_id"].combine_chunks()
        self.btu_vectors: Floats = np.load(folder / BTU_VECTORS, mmap_mode="r")
        self.title_vectors: Floats = np.load(folder / TITLE_VECTORS, mmap_mode="r")
        self.btu_root: Ints = np.asarray(self.btus["root"], np.int64)
        self.first_btu: Ints = np.searchsorted(self.btu_root, np.arange(len(self.roots) + 1))
        ends = np.asarray(self.btus["end_stu"], np.int64)
        self.first_stu: Ints = np.concatenate([[0], ends])
        sizes = [len(titles) for titles in self.roots["titles"].to_pylist()]
        self.title_root: Ints = np.repeat(np.arange(len(sizes)), sizes)
        self._stus = Lookup(folder, "stus")

    def titles(self) -> list[str]:
        """The first title of each root."""
        return [titles[0] for titles in self.roots["titles"].to_pylist()]

    def btu_of(self, unit_ids: Sequence[str]) -> Ints:
        """The BTU of each STU; raises ValueError that names a unit of another build."""
        places = self._stus.find(unit_ids)
        found: Ints = np.searchsorted(self.first_stu, places, side="right") - 1
        return found
