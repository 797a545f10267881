from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srrag.model.cross_encoder import CrossEncoderModel
from srrag.model.encoder import Encoder
from srrag.rerank.bi_encoder import RerankBiEncoder
from srrag.rerank.cross_encoder import RerankCrossEncoder
from srrag.rerank.feature_weights import embedder_name
from srrag.systems.rasrag.search_tree import SearchTree
from srrag.systems.rasrag.thresholds import QUANTILES, Thresholds, fit, read_thresholds

GOOD = {
    "btu_definite": 0.7,
    "btu_candidate": 0.4,
    "stu_definite": 1.0,
    "stu_candidate": -3.0,
    "stu_uncertain": -7.0,
}

MINILM = embedder_name(Encoder())


def written(folder: Path, **changed: float) -> str:
    path = folder / "thresholds.json"
    told = {"scorer": "S@1", "embedder": MINILM, "thresholds": {**GOOD, **changed}}
    path.write_text(json.dumps(told), "utf-8")
    return str(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    assert read_thresholds(written(tmp_path), "S@1", MINILM) == Thresholds(**GOOD)


def test_the_packaged_file_is_that_of_the_default_scorer() -> None:
    path = "pkg://srrag/systems/rasrag/textbook_thresholds.json"
    step = SearchTree(scorer=RerankBiEncoder(), thresholds=path)
    assert step.bounds() is not None
    assert step.identity() != SearchTree(scorer=RerankBiEncoder()).identity()
    other = SearchTree(scorer=RerankBiEncoder(scale=1.0), thresholds=path)
    with pytest.raises(ValueError, match="fitted to the scores of RerankBiEncoder@"):
        other.bounds()


def test_thresholds_on_the_vectors_of_another_encoder_are_refused() -> None:
    path = "pkg://srrag/systems/rasrag/textbook_thresholds.json"
    step = SearchTree(scorer=RerankBiEncoder(), thresholds=path)
    with pytest.raises(ValueError, match=r"fitted on vectors of minilm, not of BAAI/bge-m3"):
        replace(step, encoder=Encoder(model="BAAI/bge-m3")).identity()
    assert replace(step, encoder=Encoder(backend="torch-bf16")).bounds() == step.bounds()


def test_scores_of_texts_alone_are_those_of_any_encoder(tmp_path: Path) -> None:
    scorer = RerankCrossEncoder(cross_encoder=CrossEncoderModel(model="m"))
    step = SearchTree(scorer=scorer, scores="texts")
    path = tmp_path / "thresholds.json"
    told = {"scorer": step.scorer_name(), "embedder": {}, "thresholds": GOOD}
    path.write_text(json.dumps(told), "utf-8")
    other = replace(step, thresholds=str(path), encoder=Encoder(model="BAAI/bge-m3"))
    assert other.bounds() == Thresholds(**GOOD)


@pytest.mark.parametrize(
    "changed",
    [{"btu_definite": 0.4}, {"stu_candidate": 2.0}, {"stu_uncertain": float("nan")},
     {"stu_definite": float("inf")}],
)  # fmt: skip
def test_thresholds_out_of_order_are_refused(tmp_path: Path, changed: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"thresholds.json: thresholds out of order: \w+ = "):
        read_thresholds(written(tmp_path, **changed), "S@1", MINILM)


def test_another_scorer_no_file_and_another_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fitted to the scores of S@1, not of S@2"):
        read_thresholds(written(tmp_path), "S@2", MINILM)
    with pytest.raises(ValueError, match="no such file; `srrag fit_thresholds`"):
        read_thresholds(str(tmp_path / "none.json"), "S@1", MINILM)
    (tmp_path / "other.json").write_text("[]", "utf-8")
    with pytest.raises(ValueError, match=r"other.json: not thresholds"):
        read_thresholds(str(tmp_path / "other.json"), "S@1", MINILM)


def test_quantiles_of_gold_scores() -> None:
    found = fit(np.linspace(0, 1, 101), np.linspace(0, 100, 101))
    assert found["btu_definite"] == pytest.approx(0.75)
    assert found["stu_definite"] == pytest.approx(97)
    assert set(found) == set(QUANTILES)


def test_no_gold_and_scores_without_a_value_are_refused() -> None:
    with pytest.raises(ValueError, match="no question has a gold STU"):
        fit(np.ones(3), np.zeros(0))
    with pytest.raises(ValueError, match="a gold BTU has a score"):
        fit(np.array([np.nan]), np.ones(1))
