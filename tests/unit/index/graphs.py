"""A small graph with its windows and communities, made by hand, as the graph index reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core.schema import COMMUNITIES, EDGES, ENTITIES, UNITS
from srrag.core.step import Place
from srrag.graph.knowledge_tree import BuildKnowledgeTree
from srrag.graph.name_vectors import NAMES as NAMES_FILE
from srrag.graph.name_vectors import SCALES, VALUES
from srrag.index.graph import BuildGraphIndex
from srrag.index.units import BuildUnits
from srrag.model.embed import quantise_rows
from srrag.storage.mapped_table import IndexShard, read_shards, save_table, shard_file, write_shards
from tests.unit.index.tables import documents, hashed, row, uid, write

ANKLE, KNEE, TAPE, PAIN, STUDY = (hashed(name) for name in ("ankle", "knee", "tape", "pain", "d0"))
DOSE = hashed("dose")
AXES = {ANKLE: 0, KNEE: 1, TAPE: 2, PAIN: 3, STUDY: 4}
"""Every name's vector is an axis of its own; those of windows lie between."""
NAMES = {
    ANKLE: ("ankle sprains", "Condition"), KNEE: ("knee pain", "Condition"),
    TAPE: ("taping", "Intervention"), PAIN: ("pain", "Outcome"),
    STUDY: (hashed("document 0"), "Document"), DOSE: ("3 weeks", "dose"),
}  # fmt: skip
SHOWN = {ANKLE: [0, 1], KNEE: [2], TAPE: [0, 2], PAIN: [1, 2, 3], STUDY: [0, 1], DOSE: [1]}
"""The windows that mention each; window 4 mentions nothing."""
EDGES_MADE = [
    ("treats", "relation", TAPE, "treats", ANKLE, [0]),
    ("reports", "relation", STUDY, "reports_outcome", PAIN, [1]),
    ("eases", "relation", TAPE, "treats", KNEE, [2]),
    ("dosed", "attribute", TAPE, "has_attribute", DOSE, [1]),
]
GROUPS = {"ankles": [ANKLE, TAPE, STUDY, DOSE], "knees": [KNEE, PAIN]}
GRADES = "ABCA"
PMIDS = ("", "17", "17")
"""Windows 0 and 1 are one document, 2 to 4 one paper in two."""
DIMENSION = 384
"""That of the packaged encoder, which encodes what the tree says."""
NUM_WINDOWS = 5


def mention(window: int) -> dict[str, object]:
    start = window % 2 * 100 + 10
    doc_id = hashed(f"document {window // 2}")
    place = {"unit_id": "chunk", "doc_id": doc_id, "char_start": start, "char_end": start + 5}
    return {"name": "", "confidence": 1.0, **place}


def make(folder: Path) -> dict[str, list[Path]]:
    """Write the inputs of the graph index; returns them by stage."""
    for name in ("graph", "groups", "units"):
        (folder / name).mkdir(parents=True)
    entities = [
        {"entity_id": key, "name": name, "type": kind, "mentions": [*map(mention, SHOWN[key])]}
        for key, (name, kind) in NAMES.items()
    ]
    pq.write_table(
        pa.Table.from_pylist(entities, schema=ENTITIES), folder / "graph" / "entities.parquet"
    )
    edges = [
        {
            "edge_id": hashed(name), "kind": kind, "head_id": head, "relation": relation,
            "tail_id": tail, "confidence": 1.0, "mentions": [*map(mention, shown)],
        }
        for name, kind, head, relation, tail, shown in EDGES_MADE
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(edges, schema=EDGES), folder / "graph" / "edges.parquet")
    members = [
        {"entity_id": key, "community_id": group} for group, keys in GROUPS.items() for key in keys
    ]
    pq.write_table(
        pa.Table.from_pylist(members, schema=COMMUNITIES), folder / "groups" / "communities.parquet"
    )
    write_names(folder / "names", {key: axis(AXES[key]) for key in sorted(AXES)})
    windows = [
        row(
            UNITS, unit_id=uid(n), doc_id=hashed(f"document {n // 2}"), grade=f"{GRADES}E"[n],
            char_start=n % 2 * 100, char_end=n % 2 * 100 + 100,
        )
        for n in range(NUM_WINDOWS)
    ]  # fmt: skip
    paths = {
        "entities": [folder / "graph"],
        "names": [folder / "names"],
        "communities": [folder / "groups"],
        "windows": [write(windows, UNITS, folder / "windows.parquet")],
        "documents": [
            documents(
                [
                    {"doc_id": hashed(f"document {n}"), "title": f"Title {n}", "pmid": PMIDS[n]}
                    for n in range(3)
                ],
                folder / "documents.parquet",
            )
        ],
        "units": [folder / "units"],
    }
    BuildUnits().build(paths, folder / "units", Place())
    (folder / "tree").mkdir()
    paths["tree"] = [folder / "tree"]
    BuildKnowledgeTree().build(paths, folder / "tree", Place())
    return paths


def axis(number: int) -> np.ndarray:
    """The unit vector of an axis."""
    return np.eye(DIMENSION, dtype=np.float32)[number]


def write_names(folder: Path, vectors: dict[str, np.ndarray], number: int = 0) -> None:
    """Write vectors of nodes, zeros for the document, as a shard of names."""
    folder.mkdir(exist_ok=True)
    rows = np.stack([*vectors.values()]) if vectors else np.zeros((0, DIMENSION), np.float32)
    if STUDY in vectors:
        rows[[*vectors].index(STUDY)] = 0
    values, scales = quantise_rows(rows)
    ids = pa.array([*vectors], pa.string())
    table = pa.table({"id": ids, "name": ids})
    save_table(table, folder / shard_file(NAMES_FILE, number))
    np.save(folder / shard_file(VALUES, number), values)
    np.save(folder / shard_file(SCALES, number), scales)
    former = read_shards(folder) if number else []
    write_shards([*former, IndexShard(number, (), len(table))], folder)


def index(folder: Path) -> Path:
    """The folder of the built index."""
    paths = make(folder / "inputs")
    out = folder / "index"
    out.mkdir()
    BuildGraphIndex().build(paths, out, Place())
    return out
