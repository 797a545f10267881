"""Vectors of names from those of their words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.graph import name_vectors
from srrag.graph.name_vectors import WordVectors, encode_names
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.step import Place

NAMES = pa.array(["Low back pain", "pain of the lower back", "aspirin", "—", "aspirin", "with"])


def vectors_of(texts: list[str]) -> np.ndarray:
    return load(Encoder()).encode(texts)


def encoded(
    names: pa.Array = NAMES, known: WordVectors | None = None, *, whole: bool = False
) -> tuple[np.ndarray, WordVectors]:
    return encode_names(names, Encoder(), Place(), known or WordVectors.none(), whole=whole)


def test_a_name_is_the_mean_of_its_words_and_one_without_any_is_its_own() -> None:
    found, words = encoded()
    assert words.texts.to_pylist() == [
        "aspirin", "back", "low", "lower", "pain", "with", "—",
    ]  # fmt: skip
    mean = vectors_of(["low", "back", "pain"]).mean(0)
    np.testing.assert_allclose(found[0], mean / np.linalg.norm(mean), atol=2e-3)
    for row, text in ((2, "aspirin"), (3, "—"), (4, "aspirin"), (5, "with")):
        np.testing.assert_allclose(found[row], vectors_of([text])[0], atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(found.astype("f4"), axis=1), 1, atol=2e-3)


def test_a_whole_name_is_encoded_as_it_stands() -> None:
    found, words = encoded(whole=True)
    assert words.texts.to_pylist() == sorted(set(NAMES.to_pylist()))
    np.testing.assert_allclose(found, vectors_of(NAMES.to_pylist()), atol=2e-3)


def test_joined_words_stay_and_quotes_around_them_go() -> None:
    _, words = encoded(pa.array(["'off-label' β-blocker's use", "covid-19", "3 mg/kg"]))
    assert words.texts.to_pylist() == [
        "3",
        "covid-19",
        "kg",
        "mg",
        "off-label",
        "use",
        "β-blocker's",
    ]


def test_only_new_words_are_encoded_and_only_words_in_use_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole, words = encoded()
    words.write(tmp_path)
    asked: list[list[str]] = []

    class Told:
        dim = 384

        def encode(self, texts: list[str]) -> np.ndarray:
            asked.append(texts)
            return vectors_of(texts)

    monkeypatch.setattr(name_vectors, "load", lambda *_: Told())
    names = pa.array(["chronic low back pain", "Low back pain"])
    found, kept = encoded(names, WordVectors.read(tmp_path))
    assert asked == [["chronic"]] and kept.texts.to_pylist() == ["back", "chronic", "low", "pain"]
    assert (found[1] == whole[0]).all(), "to the bit"
    asked.clear()
    again, _ = encoded(names, kept)
    assert not asked and (again == found).all()


def test_names_are_taken_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = encoded()
    monkeypatch.setattr(name_vectors, "_BATCH", 2)
    parts, _ = encoded()
    np.testing.assert_allclose(whole.astype("f4"), parts.astype("f4"), atol=2e-3)


def test_no_names_have_no_vectors_of_the_models_width() -> None:
    found, words = encoded(pa.array([], pa.string()))
    assert found.shape == words.vectors.shape == (0, 384) and not len(words.texts)
