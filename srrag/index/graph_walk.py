"""The walk over nodes, windows and studies that the graph index offers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from srrag.storage.mapped_table import save_table


def write_ids(ids: pa.ChunkedArray | pa.Array, out: Path, name: str) -> None:
    """Write ids as `<name>.arrow`, which readers map."""
    save_table(pa.table({"id": ids}), out / f"{name}.arrow")


def write_codes(column: Any, out: Path, name: str) -> None:
    """Write a column of few distinct words: codes, and `<name>.json` of the words."""
    words = sorted(pc.unique(column).to_pylist())
    codes = rows_or_none(pc.index_in(column, value_set=pa.array(words, pa.string())))
    np.save(out / f"{name}.npy", codes.astype(np.int16))
    (out / f"{name}.json").write_text(json.dumps(words), "utf-8")


def read_codes(folder: Path, name: str) -> tuple[npt.NDArray[np.int16], list[str]]:
    """The codes and the words that `write_codes` wrote."""
    return read_array(folder, name), json.loads((folder / f"{name}.json").read_text("utf-8"))


def write_ragged(members: np.ndarray, offsets: Ints, out: Path, name: str) -> None:
    """Write lists one after another, and where each begins, with the end of the last."""
    np.save(out / f"{name}.npy", members)
    np.save(out / f"{name}.offsets.npy", offsets)


def read_ragged(folder: Path, name: str) -> tuple[npt.NDArray[Any], Ints]:
    """The members and the offsets that `write_ragged` wrote."""
    return read_array(folder, name), read_array(folder, f"{name}.offsets")


def read_array(folder: Path, name: str) -> npt.NDArray[Any]:
    """Map an array as a plain view, since np.memmap is slow to index."""
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))


def rows_or_none(found: Any) -> Ints:
    """Positions as int64, with -1 for null."""
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)


Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

DOCUMENT = "Document"
"""Type of the node of a study or guideline itself; its name is a doc_id."""
STUDY_WEIGHT = 12.0
"""Weight of the link between a window and its study; the link to an entity has its rarity."""


def write_links(ends: Sequence[tuple[Ints, Ints]], out: Path) -> int:
    """Write the links that lists of two ends make, `links.npy` (m, 2); returns their number.

    Each unordered pair is a link once; a node has none to itself.
    """
    first, second = (np.concatenate(each) for each in zip(*ends, strict=True))
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)
    pairs = np.unique(pairs[first != second].astype(np.int32), axis=0)
    np.save(out / "links.npy", pairs)
    return len(pairs)


class Transitions:
    """One step of a walk over nodes, windows and studies, in this order of rows.

    Nodes are linked by triples and by a common spelling (weight 1 each), a window and a node that
    it mentions by the node's rarity, a window and its study by STUDY_WEIGHT. A document's node is
    linked by its triples only, a study of one window not at all. A step goes along a link with the
    probability of its weight among those of its row.
    """

    def __init__(
        self,
        folder: Path,
        shown: tuple[np.ndarray, Ints],
        is_document: npt.NDArray[np.bool_],
    ) -> None:
        """Map the links; `shown` lists the nodes that each window mentions, with offsets."""
        members, offsets = shown
        self._num_nodes, self._num_windows = len(is_document), len(offsets) - 1
        shape = self._num_windows, self._num_nodes
        ones = np.ones(len(members), np.float32)
        self._shown = sparse.csr_array((ones, members, offsets), shape=shape)
        self._mentions = self._shown.T  # the same arrays
        self._pairs = read_array(folder, "links")
        seen = np.bincount(members, minlength=self._num_nodes)
        # Inverse window frequency scaled to 0…1: log(1 + W / w) / log(1 + W).
        num = max(1, self._num_windows)
        rarity = np.log1p(self._num_windows / np.maximum(seen, 1)) / np.log1p(num)
        self.rarity: Floats = rarity.astype(np.float32)
        self._weight = np.where(is_document, np.float32(0), self.rarity)
        self._study = read_array(folder, "window_studies").astype(np.int64)
        self._sizes = np.bincount(self._study)
        self._shared = (self._sizes[self._study] > 1) * np.float32(STUDY_WEIGHT)
        self.size = self._num_nodes + self._num_windows + len(self._sizes)

    def __call__(self, place: Floats) -> Floats:
        """Where a walk is after one step from `place` (size,)."""
        return self._along(np.where(self._degree > 0, place / self._one, 0))

    @cached_property
    def _degree(self) -> Floats:
        """The weight of all links of each row."""
        return self._along(np.ones(self.size, np.float32))

    @cached_property
    def _one(self) -> Floats:
        return np.maximum(self._degree, np.float32(1e-12))

    @cached_property
    def _between(self) -> sparse.csr_array:
        """The links between nodes, both ways."""
        ends = np.concatenate([self._pairs, self._pairs[:, ::-1]]).T
        ones = np.ones(ends.shape[1], np.float32)
        shape = self._num_nodes, self._num_nodes
        return sparse.csr_array(sparse.coo_array((ones, (ends[0], ends[1])), shape=shape))

    def _along(self, values: Floats) -> Floats:
        """Sum each row's neighbours' values, times the weights of the links: (size,)."""
        nodes, windows, studies = np.split(values, np.cumsum([self._num_nodes, self._num_windows]))
        of_nodes = self._between @ nodes + self._weight * (self._mentions @ windows)
        of_windows = self._shown @ (self._weight * nodes) + self._shared * studies[self._study]
        own = self._shared * windows
        of_studies = np.bincount(self._study, own, minlength=len(self._sizes))
        found: Floats = np.concatenate([of_nodes, of_windows, of_studies]).astype(np.float32)
        return found
