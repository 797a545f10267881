from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from srrag.model.embed import load
from srrag.model.encoder import Encoder
from tests.tiny_models import make_bert

TEXTS = ["How long is a cast worn?", "Ten days at most, then functional treatment."]


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("towers")
    return make_bert(folder / "query", seed=1), make_bert(folder / "article", seed=2)


def alone(folder: Path, pooling: str) -> np.ndarray:
    """The vectors of one tower, by transformers itself."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    found = []
    for text in TEXTS:
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
    np.testing.assert_allclose(loaded.encode(TEXTS, "query"), alone(query, pooling), atol=1e-4)
    np.testing.assert_allclose(loaded.encode(TEXTS), alone(article, pooling), atol=1e-4)
    vectors, tokens = loaded.encode_tokens(TEXTS, "query")
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
