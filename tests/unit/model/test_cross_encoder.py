from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from srrag.core.spec import spec
from srrag.model.cross_encoder import CrossEncoderModel, load_cross_encoder
from tests.tiny_models import make_cross_encoder

PASSAGES = ["The knee.", "Ankle sprain: ten days in a cast at most. " * 8, "", "Heel pain"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("cross"))


def test_the_logit_is_that_of_the_model_itself(folder: Path) -> None:
    """Without a sigmoid, and whatever else stands in the batch."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    plain = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    loaded = load_cross_encoder(CrossEncoderModel(model=str(folder), max_tokens=64), threads=1)
    found = loaded.logits("How long in a cast?", PASSAGES)
    for passage, score in zip(PASSAGES, found, strict=True):
        tokens = tokenizer(
            ["How long in a cast?"], [passage], return_tensors="pt", truncation=True, max_length=64
        )
        with torch.inference_mode():
            expected = plain(**tokens).logits.item()
        assert score == pytest.approx(expected, abs=1e-5)
    assert found.dtype == np.float64
    assert np.ptp(found) > 0.01
    assert loaded.logits("x", []).shape == (0,)


def test_read_once(folder: Path) -> None:
    model = CrossEncoderModel(model=str(folder), max_tokens=64)
    assert load_cross_encoder(model) is load_cross_encoder(model)


def test_bfloat16_is_close(folder: Path) -> None:
    exact, half = (
        load_cross_encoder(CrossEncoderModel(model=str(folder), max_tokens=64, dtype=dtype))
        for dtype in ("float32", "bfloat16")
    )
    np.testing.assert_allclose(half.logits("x", PASSAGES), exact.logits("x", PASSAGES), atol=0.05)


def test_what_cannot_be_a_reranker(folder: Path, tmp_path: Path) -> None:
    two = make_cross_encoder(tmp_path / "two", num_labels=2)
    for model, message in (
        (CrossEncoderModel(model=str(tmp_path)), "cannot be read"),
        (CrossEncoderModel(model="nobody/nothing"), "a hub id needs its revision"),
        (CrossEncoderModel(model=str(two), max_tokens=64), "gives 2 numbers for a pair"),
        (CrossEncoderModel(model=str(folder), max_tokens=65), "exceeds the 64 positions"),
    ):
        with pytest.raises(ValueError, match=message):
            load_cross_encoder(model)
    with pytest.raises(ValueError, match="finds no GPU"):
        load_cross_encoder(CrossEncoderModel(model=str(folder), max_tokens=64), device="cuda:9")
    for wrong in ({"model": ""}, {"model": "m", "dtype": "int4"}, {"model": "m", "max_tokens": 1}):
        with pytest.raises(ValueError, match=r"model|dtype|max_tokens"):
            CrossEncoderModel(**wrong)


def test_other_weights_in_the_same_folder_are_another_model(tmp_path: Path) -> None:
    folder = make_cross_encoder(tmp_path / "cross")
    before = CrossEncoderModel(model=str(folder), max_tokens=64)
    assert before == CrossEncoderModel(model=str(folder), max_tokens=64)
    weights = load_file(folder / "model.safetensors")
    save_file({name: 0.9 * each for name, each in weights.items()}, folder / "model.safetensors")
    after = CrossEncoderModel(model=str(folder), max_tokens=64)
    assert spec(after) != spec(before)
    load_cross_encoder(after)
    with pytest.raises(ValueError, match="it is not the model sha256:") as caught:
        load_cross_encoder(before)
    assert "\n" not in str(caught.value)


def test_weights_that_are_pickled_are_not_read(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    for path in folder.iterdir():
        if path.is_file() and path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    torch.save(load_file(folder / "model.safetensors"), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be read"):
        load_cross_encoder(CrossEncoderModel(model=str(tmp_path), max_tokens=64))
