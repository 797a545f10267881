"""Token index: the token vectors and the sentence vector of every window, memory-mapped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.maxsim import take_ragged
from srrag.index.parts import check_finite, unpack_vectors
from srrag.index.titles import TITLE_WEIGHT, with_titles
from srrag.step import Build, Place
from srrag.storage.lookup import Lookup, write_lookup
from srrag.storage.read_live import read_live


@dataclass(frozen=True, kw_only=True)
class BuildTokenIndex(Build):
    """Joins the vectors of all parts into files with row offsets, for rerankers.

    Token vectors are int8 for MaxSim; sentence vectors stay float32, a few percent of the whole.
    `titles` names the stage of the titles' vectors, "" for none, which are added to the sentence
    vectors as in the dense index; `windows` says whose title is whose.
    """

    version: ClassVar[int] = 2

    vectors: str = "vectors"
    windows: str = ""
    titles: str = ""
    title_weight: float = TITLE_WEIGHT

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `tokens.i8`, `scales.f2`, `vectors.f4`, `offsets.npy` and the lookup of units."""
        ids: list[str] = []
        counts: list[int] = []
        dimension = width = cut = 0
        with (
            (out / "tokens.i8").open("wb") as tokens,
            (out / "scales.f2").open("wb") as scales,
            (out / "vectors.f4").open("wb") as vectors,
        ):
            columns = ("unit_id", "vector", "tokens", "token_scales", "cut")
            paths = inputs[self.vectors]
            for path, read in zip(paths, read_live(paths, columns), strict=True):
                _check(read, self.vectors)
                table = self._titled(read, path.name, inputs) if self.titles else read
                ids.extend(table["unit_id"].to_pylist())
                cut += pc.sum(table["cut"]).as_py() or 0
                for vector, block, scale in zip(
                    table["vector"], table["tokens"], table["token_scales"], strict=True
                ):
                    counts.append(len(scale.as_buffer()) // 2)
                    width = len(vector.as_buffer()) // 4
                    if counts[-1]:
                        # Not the sentence vector's: a dense layer after pooling changes its length.
                        dimension = len(block.as_buffer()) // counts[-1]
                    tokens.write(block.as_buffer())
                    scales.write(scale.as_buffer())
                    vectors.write(vector.as_buffer())
        np.save(out / "offsets.npy", np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
        np.save(out / "dimensions.npy", np.array([dimension or width, width]))
        write_lookup(ids, out, "units")
        return {
            "windows": len(ids),
            "tokens": int(sum(counts)),
            "dimension": dimension or width,
            "cut": cut,
        }

    def _titled(self, table: pa.Table, name: str, inputs: Mapping[str, Sequence[Path]]) -> pa.Table:
        """The rows of a part with the titles in their sentence vectors."""
        windows, titles = (
            next(path for path in inputs[stage] if path.name == name)
            for stage in (self.windows, self.titles)
        )
        ids = table["unit_id"].combine_chunks()
        block = unpack_vectors(table["vector"])
        mixed = with_titles(block, ids, windows, titles, self.title_weight)
        vectors = pa.array([row.tobytes() for row in mixed], pa.binary())
        place = table.column_names.index("vector")
        return table.set_column(place, "vector", vectors)


class TokenIndex:
    """The opened token index."""

    def __init__(self, folder: Path) -> None:
        """Map the files."""
        self.dimension, width = np.load(folder / "dimensions.npy").tolist()
        self.offsets: npt.NDArray[np.int64] = np.load(folder / "offsets.npy", mmap_mode="r")
        total = int(self.offsets[-1])
        self.tokens = _mapped(folder / "tokens.i8", np.int8, (total, self.dimension))
        self.scales = _mapped(folder / "scales.f2", np.float16, (total,))
        self.vectors = _mapped(folder / "vectors.f4", np.float32, (len(self.offsets) - 1, width))
        self._rows = Lookup(folder, "units")

    def take(
        self, unit_ids: Sequence[str]
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16], npt.NDArray[np.int64]]:
        """Return token vectors (n, dimension), their scales (n,) and offsets (units + 1,)."""
        index, offsets = take_ragged(self.offsets, self._rows.find(unit_ids))
        return self.tokens[index], self.scales[index], offsets

    def take_vectors(self, unit_ids: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return sentence vectors (units, width) of unit length."""
        vectors: npt.NDArray[np.float32] = self.vectors[self._rows.find(unit_ids)]
        return vectors


def _check(table: pa.Table, where: str) -> None:
    """Raise ValueError that names a unit with a non-finite vector or scale."""
    ids = table["unit_id"].to_pylist()
    for unit_id, vector, scale in zip(ids, table["vector"], table["token_scales"], strict=True):
        row = np.frombuffer(vector.as_buffer(), np.float32)[None, :]
        check_finite(row, [unit_id], where)
        scales = np.frombuffer(scale.as_buffer(), np.float16)
        if not np.isfinite(scales).all():
            raise ValueError(f"{where}: a scale of {unit_id} is not finite; run the build again")


def _mapped(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Map a file of numbers as an array; an empty file cannot be mapped, so the array is new."""
    if not math.prod(shape):
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", shape=shape)
