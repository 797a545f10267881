"""The packaged encoder in NumPy gives torch's vectors, and a question imports no torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from srrag.model import embed
from srrag.model.embed import LoadedEncoder, load
from srrag.model.encoder import Encoder
from tests.conftest import REPOSITORY

TEXTS = [
    "knee", "", "Does exercise help knee osteoarthritis?", "naïve Übung, 12.5 % of n = 40!",
    "manual therapy of the neck " * 90,
]  # fmt: skip


def light(monkeypatch: pytest.MonkeyPatch) -> LoadedEncoder:
    monkeypatch.setattr(embed, "_has_torch", lambda: False)
    monkeypatch.setattr(embed, "_few_texts", [True])
    return LoadedEncoder(Encoder(), "cpu")


def test_vectors_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = load(Encoder(), "cpu", 1)
    expected, tokens = heavy.encode_tokens(TEXTS, "query")
    model = light(monkeypatch)
    vectors, found = model.encode_tokens(TEXTS, "query")
    assert model._towers is None
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(TEXTS[:3]), expected[:3], atol=1e-5)
    assert found.offsets.tolist() == tokens.offsets.tolist()
    assert found.cut.tolist() == tokens.cut.tolist()
    apart = np.abs(found.values.astype(int) - tokens.values)
    assert apart.max() <= 1 and (apart > 0).mean() < 1e-3
    np.testing.assert_allclose(found.scale, tokens.scale, rtol=2e-3)


def test_many_texts_are_encoded_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = light(monkeypatch)
    model.encode(["knee"])
    assert model._towers is None
    many = model.encode(["hip"] * embed.LIGHT_TEXTS)
    assert model._towers is not None
    assert many.tolist() == load(Encoder(), "cpu", 1).encode(["hip"] * embed.LIGHT_TEXTS).tolist()


def test_what_is_kept_is_encoded_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "_has_torch", lambda: False)
    assert embed._light(Encoder(), "cpu") is None
    with embed.few_texts():
        model = LoadedEncoder(Encoder(), "cpu")
        assert model._towers is None
    model.encode(["knee"])
    assert model._towers is not None, "also by a model that was read for a question"


def test_another_backend_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "_has_torch", lambda: False)
    monkeypatch.setattr(embed, "_few_texts", [True])
    assert embed._light(Encoder(backend="torch-bf16"), "cpu") is None
    assert embed._light(Encoder(pooling="cls"), "cpu") is None
    assert embed._light(Encoder(), "cuda:0") is None


def test_a_question_imports_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; from srrag.config.run_job import _without_pandas; _without_pandas();"
        "import pyarrow as pa; pa.array([1]);"
        "import jobs.ask, srrag.library.terminal, srrag.retrieve.search_dense;"
        "from srrag.model.embed import few_texts, load; from srrag.model.encoder import Encoder;"
        "few = few_texts(); few.__enter__(); load(Encoder(), 'cpu', 1).encode(['knee']);"
        "found = {'torch', 'pandas', 'scipy.special'} & sys.modules.keys();"
        "assert not found, found;"
        "assert pa.table({'x': [1]}).to_pandas()['x'].tolist() == [1]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
