"""The walk over nodes, windows and studies that the graph index offers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from srrag.index.graph_files import read_array

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

    def __call__(self, place: Floats, moved: Ints | None = None) -> Floats:
        """Where a walk is after one step from `place` (size,).

        `moved` rewires the links: each leads from another row.
        """
        return self._along(np.where(self._degree > 0, _from(place, moved) / self._one, 0))

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


def _from(place: Floats, moved: Ints | None) -> Floats:
    return place if moved is None else place[moved]
