"""Token index: the token vectors of every window for MaxSim, int8, memory-mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from srrag.algo.maxsim import take_ragged
from srrag.index.lookup import Lookup, write_lookup
from srrag.index.parts import read_live
from srrag.step import Build, Place


@dataclass(frozen=True, kw_only=True)
class BuildTokenIndex(Build):
    """Joins the token vectors of all parts into one file with row offsets."""

    vectors: str = "vectors"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `tokens.i8`, `scales.f2`, `offsets.npy` and the lookup of units."""
        ids: list[str] = []
        counts: list[int] = []
        dimension = cut = 0
        with (out / "tokens.i8").open("wb") as tokens, (out / "scales.f2").open("wb") as scales:
            for table in read_live(
                inputs[self.vectors], ("unit_id", "vector", "tokens", "token_scales", "cut")
            ):
                ids.extend(table["unit_id"].to_pylist())
                cut += pc.sum(table["cut"]).as_py() or 0
                for vector, block, scale in zip(
                    table["vector"], table["tokens"], table["token_scales"], strict=True
                ):
                    counts.append(len(scale.as_buffer()) // 2)
                    if counts[-1]:
                        # Not the vector's: a dense layer behind the pooling changes its length.
                        dimension = len(block.as_buffer()) // counts[-1]
                    elif not dimension:
                        dimension = len(vector.as_buffer()) // 4
                    tokens.write(block.as_buffer())
                    scales.write(scale.as_buffer())
        np.save(out / "offsets.npy", np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
        np.save(out / "dimension.npy", np.array(dimension))
        write_lookup(ids, out, "units")
        return {"windows": len(ids), "tokens": int(sum(counts)), "dimension": dimension, "cut": cut}


class TokenIndex:
    """The opened token index."""

    def __init__(self, folder: Path) -> None:
        """Map the files."""
        self.dimension = int(np.load(folder / "dimension.npy"))
        self.offsets: npt.NDArray[np.int64] = np.load(folder / "offsets.npy", mmap_mode="r")
        total = int(self.offsets[-1])
        self.tokens: npt.NDArray[np.int8] = (
            np.memmap(folder / "tokens.i8", dtype=np.int8, mode="r", shape=(total, self.dimension))
            if total
            else np.zeros((0, self.dimension), np.int8)
        )
        self.scales: npt.NDArray[np.float16] = (
            np.memmap(folder / "scales.f2", dtype=np.float16, mode="r", shape=(total,))
            if total
            else np.zeros(0, np.float16)
        )
        self._rows = Lookup(folder, "units")

    def take(
        self, unit_ids: Sequence[str]
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16], npt.NDArray[np.int64]]:
        """Token vectors (n, dimension), their scales (n,) and offsets (units + 1,)."""
        index, offsets = take_ragged(self.offsets, self._rows.find(unit_ids))
        return self.tokens[index], self.scales[index], offsets
