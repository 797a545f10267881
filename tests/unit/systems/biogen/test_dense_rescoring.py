from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.step import Place
from srrag.core.units import open_units
from srrag.index.titles import TITLE_WEIGHT
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.retrieve.questions import question_table
from srrag.storage.store import Store
from srrag.systems.biogen.dense_rescoring import RescoreDense
from tests.unit.lab.train.filter_toys import tiny_encoder

QUESTION = "Does taping prevent ankle sprains?"


@pytest.fixture(scope="module")
def place(sample_root: Path) -> Place:
    return Place(artifacts=Store(sample_root).artifacts("default"))


def hits(place: Place, versions: list[str], **question: str) -> pa.Table:
    ids = open_units(place).units["unit_id"].slice(0, 6).combine_chunks()
    table = question_table([{"query_id": "q", "text": QUESTION, **question}])
    table = table.append_column("reformulations", pa.array([versions], pa.list_(pa.string())))
    return table.append_column("hits_pooled", FoundWindows.of([(ids, np.ones(6))]).hits())


def scored(place: Place, table: pa.Table, **fields: Any) -> dict[str, float]:
    (row,) = RescoreDense(into="hits", **fields).open(place)(table)["hits"].to_pylist()
    return {hit["unit_id"]: hit["score"] for hit in row}


def test_the_cosine_with_the_mean_of_all_wordings(place: Place) -> None:
    versions = ["Tape for ankles", "Sprain prevention"]
    found = scored(place, hits(place, versions, topic="Ankle"))
    model = load(Encoder(), "cpu")
    evidence = open_units(place).take_evidence(list(found))
    texts, titles = (model.encode(evidence[name].to_pylist()) for name in ("text", "title"))
    windows = texts + TITLE_WEIGHT * titles
    windows /= np.linalg.norm(windows, axis=1, keepdims=True)
    queries = model.encode([f"Ankle {each}" for each in (QUESTION, *versions)], "query").mean(0)
    expected = windows @ (queries / np.linalg.norm(queries))
    assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-3)


def test_only_the_best_go_on(place: Place) -> None:
    whole = scored(place, hits(place, []))
    assert list(scored(place, hits(place, []), keep=2)) == list(whole)[:2]
    assert scored(place, hits(place, [], narrative="Zinc")) != pytest.approx(whole)


def test_only_the_encoder_of_the_build(place: Place, tmp_path: Path) -> None:
    other = Encoder(model=str(tiny_encoder(tmp_path)), max_tokens=32)
    with pytest.raises(ValueError, match="the build's embedder"):
        scored(place, hits(place, []), encoder=other)
