from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from srrag.model.colbert import LoadedColbert
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from tests.tiny_models import make_bert, make_colbert

TEXTS = ["The knee, after surgery.", "knee " * 40, "knee " * 80, "", "Heel pain."]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = make_colbert(tmp_path_factory.mktemp("colbert"))
    return Encoder(model=str(folder), backend="colbert", max_tokens=64)


def test_tokens_are_those_that_the_model_counts(encoder: Encoder) -> None:
    """Unit length, without punctuation, and not cut where the model by itself would cut."""
    loaded = load(encoder, threads=1)
    assert isinstance(loaded, LoadedColbert)
    vectors, tokens = loaded.encode_tokens(TEXTS)
    assert vectors.shape == (5, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    unit = tokens.values * tokens.scale[:, None].astype(np.float32)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=0.02)
    lengths = np.diff(tokens.offsets)
    assert lengths[1] > 40
    assert tokens.cut.tolist() == [False, False, True, False, False]
    whole = loaded._model.encode_document(TEXTS, convert_to_numpy=True)
    assert lengths.tolist() == [len(each) for each in whole]
    # Five words less one comma and one full stop, within [CLS] [SEP] and the model's prefix.
    assert lengths[0] == lengths[3] + 4


def test_questions_are_expanded(encoder: Encoder) -> None:
    _, tokens = load(encoder).encode_tokens(["How long in a cast?", "Knee?"], "query")
    assert np.diff(tokens.offsets).tolist() == [16, 16]


def test_no_texts(encoder: Encoder) -> None:
    vectors, tokens = load(encoder).encode_tokens([])
    assert vectors.shape == (0, 16)
    assert tokens.offsets.tolist() == [0]


def test_what_it_cannot_be(encoder: Encoder, tmp_path: Path) -> None:
    for wrong, message in (
        ({"model": str(tmp_path)}, "cannot be read"),
        ({"model": "nobody/nothing"}, "a hub id needs its revision"),
        ({"model": encoder.model, "max_tokens": 65}, "exceeds the 64 positions"),
    ):
        with pytest.raises(ValueError, match=message):
            load(Encoder(backend="colbert", **wrong))
    with pytest.raises(ValueError, match="finds no GPU"):
        load(encoder, device="cuda:9")
    with pytest.raises(ValueError, match="prefixes that its model comes with"):
        Encoder(backend="colbert", query_prefix="query: ")


TOWER_TEXTS = ["How long is a cast worn?", "Ten days at most, then functional treatment."]


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("towers")
    return make_bert(folder / "query", seed=1), make_bert(folder / "article", seed=2)


def alone(folder: Path, pooling: str) -> np.ndarray:
    """The vectors of one tower, by transformers itself."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    found = []
    for text in TOWER_TEXTS:
        with torch.inference_mode():
            hidden = model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0]
        vector = hidden[0] if pooling == "cls" else hidden.mean(0)
        found.append((vector / vector.norm()).numpy())
    return np.stack(found)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_each_role_has_its_model(towers: tuple[Path, Path], pooling: str) -> None:
    query, article = towers
    loaded = load(
        Encoder(model=str(article), query_model=str(query), pooling=pooling, max_tokens=64)
    )
    np.testing.assert_allclose(
        loaded.encode(TOWER_TEXTS, "query"), alone(query, pooling), atol=1e-4
    )
    np.testing.assert_allclose(loaded.encode(TOWER_TEXTS), alone(article, pooling), atol=1e-4)
    vectors, tokens = loaded.encode_tokens(TOWER_TEXTS, "query")
    np.testing.assert_allclose(vectors, alone(query, pooling), atol=1e-4)
    assert len(tokens.offsets) == 3


def test_towers_that_do_not_fit_each_other(towers: tuple[Path, Path], tmp_path: Path) -> None:
    query, article = towers
    wide = make_bert(tmp_path / "wide", hidden=48)
    with pytest.raises(ValueError, match="another tokenizer or length of vectors") as caught:
        load(Encoder(model=str(article), query_model=str(wide), pooling="cls", max_tokens=64))
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="a hub id needs its revision"):
        load(Encoder(model=str(article), query_model="nobody/n", pooling="cls", max_tokens=64))
    for fields, message in (
        ({"pooling": "max"}, "not one of cls, mean"),
        ({"backend": "colbert", "query_model": str(query)}, "has one model"),
    ):
        with pytest.raises(ValueError, match=message):
            Encoder(**fields)
