"""A cross-encoder reads what the rules let through, and drops what scores low."""

from __future__ import annotations

from typing import Any

import pytest

from srrag.answer.check_support import CheckSupport, gate_of
from srrag.answer.cited import ABSTENTION
from srrag.answer.score_support import ScoreSupport
from srrag.model.cross_encoder import CrossEncoderModel, load_cross_encoder
from srrag.step import Place
from tests.tiny_models import make_cross_encoder
from tests.unit.answer.test_check_support import FAR, GOOD, OTHER, cited, composed
from tests.unit.answer.test_compose import FINDING
from tests.unit.answer.test_support_gate import by_words

WHOLE = cited((GOOD, [1]), (FINDING, [1]), evidence=((OTHER, [2]),))
"""A sentence in other words, and two quotes."""
AT = Place(threads=1)


@pytest.fixture(autouse=True)
def vectors_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network is read: cosines are overlaps of words."""
    monkeypatch.setattr(CheckSupport, "encode_at", lambda self, at: by_words)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoderModel:
    folder = make_cross_encoder(tmp_path_factory.mktemp("cross"))
    return CrossEncoderModel(model=str(folder), max_tokens=64)


def scored(model: CrossEncoderModel, completion: str, least: float) -> tuple[Any, Any]:
    """The row before and after."""
    table = CheckSupport().open(Place())(composed(completion))
    step = ScoreSupport(cross_encoder=model, least=least)
    return table.to_pylist()[0], step.open(AT)(table).to_pylist()[0]


def test_only_what_is_no_quote_is_read_and_stands_from_its_logit_on(
    model: CrossEncoderModel,
) -> None:
    before, _ = scored(model, WHOLE, 0.0)
    window = before["evidence"][0]
    passage = f"{window['title']}\n{window['text']}"
    (logit,) = load_cross_encoder(model, threads=1).logits(GOOD, [passage])
    _, stays = scored(model, WHOLE, logit - 1e-3)
    assert stays["support_scored"] == 1 and stays["answer"] == before["answer"]
    _, falls = scored(model, WHOLE, logit + 1e-3)
    texts = [each["text"] for each in falls["sentences"]]
    assert texts == [each["text"] for each in before["sentences"] if each["text"] != GOOD]
    assert [(e["text"], e["fault"]) for e in falls["unsupported"]] == [(GOOD, "judged")]
    assert falls["support"]["kept_sentences"] == len(texts)


def test_an_answer_of_which_nothing_is_left_is_an_abstention(model: CrossEncoderModel) -> None:
    _, row = scored(model, cited((GOOD, [1])), 1e9)
    assert row["state"] == "not" and row["answer"] == ABSTENTION and row["sentences"] == []


def test_no_sentence_of_a_draft_passes_before_the_model_has_read_all(
    model: CrossEncoderModel,
) -> None:
    check, step = CheckSupport(), ScoreSupport(cross_encoder=model)
    alone, later = gate_of([check], AT), gate_of([check, step], AT)
    assert alone is not None and later is not None
    assert type(alone("", [])) is not type(later("", []))
    assert later("", []).check(FAR, []).fault
