"""Encode windows: one forward pass gives the sentence vector and the token vectors."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core.errors import first_line
from srrag.core.schema import VECTORS
from srrag.core.spec import spec
from srrag.core.step import Function, Place, Step
from srrag.model.encoder import Encoder
from srrag.storage import mirror
from srrag.storage.atomic_write import read_json
from srrag.storage.manifest import DamagedError, check_part

if TYPE_CHECKING:
    from srrag.model.embed import LoadedEncoder, TokenVectors

Keys = npt.NDArray[np.uint64]
_READERS = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EncodeWindows(Step):
    """Windows → vectors; texts that any build of this root has encoded are copied.

    The token vectors (for MaxSim, Eq. 15 of sr-rag) are int8 with one scale a token.
    """

    encoder: Encoder = field(default_factory=Encoder)

    reads: ClassVar[tuple[str, ...]] = ("unit_id", "text")
    writes: ClassVar[pa.Schema] = VECTORS
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {
        "vector": ("float32", 1e-5),
        "tokens": ("int8", 1.0),
        "token_scales": ("float16", 1e-4),
    }

    def open(self, at: Place) -> Function:
        """Map existing vectors; without any, load the model now, else at the first new text."""
        cache = VectorCache(at.root, self)
        if not len(cache.keys):
            self._model(at)

        def run(batch: pa.Table) -> pa.Table:
            texts = batch["text"].to_pylist()
            keys = text_keys(texts)
            rows = cache.find(keys)
            new = np.array([key not in rows for key in keys.tolist()], dtype=bool)
            fresh, first = np.unique(keys[new], return_index=True)
            if len(fresh):
                places = np.flatnonzero(new)[first]
                encoded = self._encode([texts[i] for i in places], at)
                rows.update(zip(fresh.tolist(), encoded, strict=True))
            found = [rows[key] for key in keys.tolist()]
            columns = [[row[i] for row in found] for i in range(len(cache.columns))]
            return pa.table(
                [
                    batch["unit_id"],
                    pa.array(keys),
                    *(pa.array(c, VECTORS.field(i + 2).type) for i, c in enumerate(columns)),
                    pa.nulls(len(texts), VECTORS.field("reject").type),
                ],
                names=VECTORS.names,
            )

        return run

    def _model(self, at: Place) -> LoadedEncoder:
        from srrag.model.embed import load

        return load(self.encoder, at.device, at.threads)

    def _encode(self, texts: Sequence[str], at: Place) -> list[tuple[bytes, bytes, bytes, bool]]:
        vectors, tokens = self._model(at).encode_tokens(texts)
        return [
            (vector.tobytes(), values, scales, bool(was_cut))
            for vector, (values, scales), was_cut in zip(
                vectors, packed_tokens(tokens), tokens.cut, strict=True
            )
        ]


def packed_tokens(tokens: TokenVectors) -> Iterator[tuple[bytes, bytes]]:
    """Yield the int8 values and float16 scales of each text, as bytes."""
    for start, end in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True):
        yield tokens.values[start:end].tobytes(), tokens.scale[start:end].tobytes()


def text_keys(texts: Sequence[str]) -> Keys:
    """Return 64-bit hashes of texts."""
    digests = b"".join(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for text in texts
    )
    return np.frombuffer(digests, dtype=np.uint64)


class VectorCache:
    """A cache, by text, of the vectors that the same step wrote for any corpus of this root."""

    columns: ClassVar[list[str]] = ["vector", "tokens", "token_scales", "cut"]

    def __init__(self, root: Path | None, step: EncodeWindows) -> None:
        """Read the text keys (8 bytes a row) of the existing parts."""
        self.paths = [] if root is None else _parts_of(root, spec(step))
        with ThreadPoolExecutor(_READERS) as pool:  # an object store is slow for each read
            blocks = list(pool.map(_text_keys, self.paths))
        sizes = [len(block) for block in blocks]
        keys = np.concatenate(blocks) if blocks else np.zeros(0, np.uint64)
        order = np.argsort(keys, kind="stable")
        self.keys: Keys = keys[order]
        self.part = np.repeat(np.arange(len(sizes)), sizes)[order]
        self.row = np.concatenate([np.arange(size) for size in sizes])[order] if sizes else order

    def find(self, keys: Keys) -> dict[int, tuple[bytes, bytes, bytes, bool]]:
        """Return the stored rows of the known keys; what a damaged part holds is not known."""
        if not len(self.keys):
            return {}
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hits = np.flatnonzero(self.keys[place] == keys)
        found: dict[int, tuple[bytes, bytes, bytes, bool]] = {}
        unread: list[int] = []
        for part in np.unique(self.part[place[hits]]):
            here = hits[self.part[place[hits]] == part]
            path = self.paths[int(part)]
            try:
                check_part(mirror.fetch(path))
            except (DamagedError, OSError) as error:
                _log.warning("%s; its texts are encoded again", error)
                unread.append(int(part))
                continue
            table = pq.read_table(path, columns=self.columns, memory_map=True)
            rows = table.take(pa.array(self.row[place[here]]))
            values = zip(*(rows[name].to_pylist() for name in self.columns), strict=True)
            found.update(zip(keys[here].tolist(), values, strict=True))
        self._leave_out(unread)
        return found

    def _leave_out(self, parts: Sequence[int]) -> None:
        """Know nothing more of these parts, so that each is read and told of once."""
        if parts:
            left = ~np.isin(self.part, parts)
            self.keys, self.part, self.row = self.keys[left], self.part[left], self.row[left]


def _text_keys(path: Path) -> Keys:
    """Read the texts' keys; of a part on an object store only this small column is read.

    A part that cannot be read has none.
    """
    try:
        with mirror.opened(path) as file:
            table = pq.read_table(file, columns=["text_key"])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        _log.warning("%s: %s; its texts are encoded again", mirror.shown(path), first_line(error))
        return np.zeros(0, np.uint64)
    return np.asarray(table["text_key"].combine_chunks())


def _parts_of(root: Path, identity: object) -> list[Path]:
    return [
        manifest.parent / name
        for manifest in mirror.found(root / "stages", "manifest.json", depth=2)
        if read_json(manifest).get("spec") == identity
        for name in _standing(mirror.sizes(manifest.parent))
    ]


def _standing(names: Collection[str]) -> list[str]:
    """Return the parts that have a receipt; others may be incomplete."""
    return [n for n in sorted(names) if n.endswith(".parquet") and f"{n[:-8]}.json" in names]
