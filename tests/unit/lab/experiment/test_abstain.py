"""Learning when to abstain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from srrag.answer.gate.answerable import parse_model
from srrag.answer.gate.coverage import FEATURES, Frequencies
from srrag.lab.experiment.abstain import (
    FOLDS,
    AbstainExamples,
    fit,
    make_examples,
    read_texts,
    stated,
)
from srrag.lab.measure.near_topic import NearTopic

FREQUENCIES = Frequencies(100, {"pain": 50})


def evidence(source_id: str, text: str) -> dict[str, str]:
    return {
        "source_id": source_id, "pmid": "", "title": "", "doc_id": source_id, "section": "",
        "text": text,
    }  # fmt: skip


def test_examples_are_made_with_and_without_own_documents() -> None:
    good = NearTopic("q1", "Does yoga help in sciatica?", "", "", "q1")
    bad = NearTopic("nt1", "Does yoga help in whiplash?", "P", "whiplash", "q1")
    found = [evidence("a", "yoga in sciatica"), evidence("b", "yoga")]
    made = make_examples(
        [good, bad], {"q1": found, "nt1": found}, {"q1": frozenset(("a",))}, FREQUENCIES, k=1
    )
    assert made.kinds == ["answerable", "removed", "P"]
    assert made.labels.tolist() == [1, 0, 0]
    assert len(set(made.folds.tolist())) == 1
    assert made.origins == ["q1"] * 3
    absent = made.features[:, FEATURES.index("absent_telling")]
    assert absent.tolist() == [0, 0.5, 0.5]


def test_the_threshold_lets_the_share_pass_and_the_file_is_read_again() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([1.0, 0.0], 200)
    features = random.normal(size=(400, len(FEATURES))) + labels[:, None]
    folds = np.arange(400) % FOLDS
    kinds = ["answerable" if each else "P" for each in labels]
    origins = [f"q{n // 2}" for n in range(400)]
    fitted = fit(AbstainExamples(features, labels, folds, kinds, origins), 0.9, 1.0)
    passed = fitted.metrics["passed_answerable"]
    assert passed["value"] == pytest.approx(0.9, abs=0.01)
    assert (passed["n"], passed["items"]) == (100, 200), "two examples of each origin"
    assert fitted.metrics["passed_P"]["high"] < 0.4
    model = parse_model(stated(fitted, FREQUENCIES, {"side": "develop"}))
    assert model.weights == pytest.approx(fitted.weights, abs=1e-5)
    assert model.frequencies == FREQUENCIES
    with pytest.raises(ValueError, match="same label"):
        fit(AbstainExamples(features, np.ones(400), folds, kinds, origins), 0.9, 1.0)


def test_texts_are_read_from_passages_and_sections(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"title": "T", "text": "x"}\n{"sections": [{"text": "y"}]}\n[]', "utf-8")
    texts = read_texts([path])
    assert next(texts).split() == ["T", "x"] and next(texts).split() == ["y"]
    with pytest.raises(ValueError, match=r"texts\.jsonl:3"):
        next(texts)
