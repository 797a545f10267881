"""Encode the names of the graph's nodes, shard by shard, on the workers of the place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.spec import fingerprint, place_field, spec
from srrag.core.step import IncrementalBuild, Place, PreviousVersion
from srrag.graph.facts import normalise
from srrag.graph.name_vectors import SHARD_NAMES, NameVectors, encode_names
from srrag.graph.nodes import Nodes
from srrag.model.encoder import Encoder
from srrag.storage.atomic_write import commit_json, read_json

ENCODER = "encoder.json"
"""Whose vectors these are; what continues from them compares it."""


@dataclass(frozen=True, kw_only=True)
class EncodeNames(IncrementalBuild):
    """ENTITIES and EDGES → a vector for each node: an entity that is not an attribute.

    It encodes the normalised name, which added documents do not change; a document, whose name is
    an id, gets zeros. An update encodes only new names, and links the shards whose nodes all stand.
    `shard_names` bounds a shard.
    """

    entities: str = "entities"
    encoder: Encoder = field(default_factory=Encoder)
    shard_names: int = place_field(SHARD_NAMES)

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write `names-*.arrow`, `vectors-*.npy`, `scales-*.npy`, and whose vectors they are."""
        (graph,) = inputs[self.entities]
        names = _spoken(Nodes.read(graph))
        started = time.perf_counter()
        encoded = encode_names(
            names,
            self.encoder,
            out,
            at,
            former.folder if former else None,
            shard_names=self.shard_names,
        )
        seconds = round(time.perf_counter() - started, 3)
        commit_json(out / ENCODER, {"encoder": fingerprint(spec(self.encoder))})
        return {"names": len(names), "encoded": encoded, "encoding_seconds": seconds}


def vectors_of(
    folder: Path, encoder: Encoder
) -> Callable[[Sequence[str]], dict[str, np.ndarray]] | None:
    """What finds the vectors of names in a build's folder; None if another encoder made them."""
    if read_json(folder / ENCODER)["encoder"] != fingerprint(spec(encoder)):
        return None
    held = NameVectors(folder)

    def found(names: Sequence[str]) -> dict[str, np.ndarray]:
        normal = pa.array([normalise(name) or None for name in names], pa.string())
        rows = pc.index_in(normal, value_set=held.names["name"], skip_nulls=True)
        known = np.flatnonzero(np.asarray(pc.is_valid(rows))).tolist()
        places = np.asarray(rows.drop_null()).astype(np.int64)
        return dict(zip((names[n] for n in known), held.take(places), strict=True))

    return found


def _spoken(nodes: Nodes) -> pa.Table:
    """The `id` and normalised `name` of each node, "" for a document."""
    coded = pc.dictionary_encode(nodes.names)
    texts = pa.array([normalise(name) for name in coded.dictionary.to_pylist()], pa.string())
    names = pc.if_else(pa.array(nodes.is_document), "", texts.take(coded.indices))
    return pa.table({"id": nodes.core_ids, "name": names})
