"""A small hypergraph beside its windows, and tables of questions on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from srrag.core.schema import DOCUMENTS, NOTICES, UNITS
from srrag.core.step import Place
from srrag.index.standing import BuildStanding
from srrag.index.units import BuildUnits
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.reading.vocabulary import Vocabulary
from srrag.storage.atomic_write import write_parquet
from srrag.systems.ideprag.hypergraph import Hypergraph
from tests.unit.index.hypergraphs import stages_of
from tests.unit.index.tables import hashed, row
from tests.unit.reading.vocabularies import vocabulary_folder

TEXTS = {
    "a": "Aspirin treats fever. Fever is a symptom of infection.",
    "b": "Aspirin may cause bleeding. Patients with fever were treated with aspirin.",
    "c": "Exercise therapy improves tendinopathy. Tendinopathy is diagnosed by imaging.",
    "d": "Eccentric exercise therapy reduced pain in tendinopathy.",
}


def small_place(folder: Path) -> Place:
    """A place of `hypergraph`, `units` and `standing`; the paper "b" is retracted."""
    documents = [
        row(DOCUMENTS, doc_id=hashed(n), source_id=n, title=n.upper(), text=text, grade="B")
        for n, text in TEXTS.items()
    ]
    documents[1]["title"] = "RETRACTED: B"
    windows = [
        row(
            UNITS,
            unit_id=hashed((n, 0)),
            doc_id=hashed(n),
            text=text,
            char_end=len(text),
            grade="B",
        )
        for n, text in TEXTS.items()
    ]
    relations = (("documents", documents, DOCUMENTS), ("windows", windows, UNITS),
                 ("notices", [], NOTICES))  # fmt: skip
    inputs = {name: [folder / f"{name}.parquet"] for name, _, _ in relations}
    for name, rows, schema in relations:
        write_parquet(pa.Table.from_pylist(rows, schema=schema), inputs[name][0])
    table = pa.Table.from_pylist(documents, schema=DOCUMENTS)
    vocabulary = Vocabulary(folder=str(vocabulary_folder(folder)))
    stages = stages_of([(table, inputs["windows"][0])], vocabulary, folder)
    stages.graph(folder / "hypergraph", grams=None, least=1)
    for name, build in (("units", BuildUnits()), ("standing", BuildStanding())):
        (folder / name).mkdir()
        build.build(inputs, folder / name, Place(root=folder))
    names = ("hypergraph", "units", "standing")
    return Place(artifacts={name: folder / name for name in names})


def graph_of(at: Place) -> Hypergraph:
    return Hypergraph(at.artifact("hypergraph"))


def vector_of(text: str) -> np.ndarray:
    found: np.ndarray = load(Encoder()).encode([text], "query")[0]
    return found
