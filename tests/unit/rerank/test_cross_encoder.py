from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.schema import DOCUMENTS, UNITS
from srrag.core.step import Place
from srrag.index.units import BuildUnits
from srrag.model.cross_encoder import CrossEncoderModel, load_cross_encoder
from srrag.rerank.cross_encoder import RerankCrossEncoder
from tests.tiny_models import make_cross_encoder
from tests.unit.index.tables import documents, row, uid, write

TEXTS = ["Ten days in a cast.", "Bed rest for two days.", "Loading thrice a week.", ""]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoderModel:
    folder = make_cross_encoder(tmp_path_factory.mktemp("cross"))
    return CrossEncoderModel(model=str(folder), max_tokens=64)


@pytest.fixture
def at(tmp_path: Path) -> Place:
    """Windows 0 and 1 of a document with a title, 2 and 3 of one without."""
    units = [
        row(UNITS, unit_id=uid(n), doc_id=uid(90 + n // 2), text=text)
        for n, text in enumerate(TEXTS)
    ]
    inputs = {
        "windows": [write(units, UNITS, tmp_path / "windows.parquet")],
        "documents": [
            documents(
                [{"doc_id": uid(90), "title": "Ankle"}, {"doc_id": uid(91), "title": ""}],
                tmp_path / "documents.parquet",
            )
        ],
    }
    BuildUnits().build(inputs, tmp_path, Place())
    assert DOCUMENTS.field("title").type == pa.string()
    return Place(artifacts={"units": tmp_path})


def asked(*questions: tuple[str, list[int]]) -> pa.Table:
    found = [
        (pa.array([uid(n) for n in windows], pa.string()), -np.arange(len(windows), dtype=float))
        for _, windows in questions
    ]
    return pa.table(
        {"text": [text for text, _ in questions], "hits_coarse": FoundWindows.of(found).hits()}
    )


def reranked(step: RerankCrossEncoder, batch: pa.Table, at: Place) -> list[dict[int, float]]:
    """Windows by number with their scores, best first."""
    rows = step.open(at)(batch)["hits"].to_pylist()
    return [{int(hit["unit_id"][:16], 16): hit["score"] for hit in hits} for hits in rows]


@pytest.mark.parametrize("titles", [True, False])
def test_the_model_reads_title_and_text(model: CrossEncoderModel, at: Place, titles: bool) -> None:
    step = RerankCrossEncoder(cross_encoder=model, titles=titles)
    (found,) = reranked(step, asked(("How long?", [2, 0, 3, 1])), at)
    texts = [f"Ankle\n{text}" if titles else text for text in TEXTS[:2]] + TEXTS[2:]
    expected = load_cross_encoder(model).logits("How long?", texts)
    assert [found[n] for n in range(4)] == pytest.approx(expected.tolist(), abs=1e-5)
    assert list(found) == np.argsort(-expected).tolist()


def test_questions_do_not_mix_and_some_find_nothing(model: CrossEncoderModel, at: Place) -> None:
    step = RerankCrossEncoder(cross_encoder=model, keep=2)
    questions = [("How long?", [0, 1, 2]), ("Why?", []), ("Bed rest?", [3, 1])]
    together = reranked(step, asked(*questions), at)
    assert [len(row) for row in together] == [2, 0, 2]
    assert together == [reranked(step, asked(one), at)[0] for one in questions]
    assert reranked(step, asked(), at) == []
