from __future__ import annotations

import math

import numpy as np
import pytest

from srrag.algo import terms as module
from srrag.algo.terms import guess_language, terms, tfidf


def test_content_words_are_stemmed_in_order_and_numbers_stay() -> None:
    assert terms("Is the Immobilisation of sprained_ankles for 10 days helpful?") == [
        "immobilis", "sprain", "ankl", "10", "day", "help",
    ]  # fmt: skip
    assert terms("What is the best evidence?") == []


def test_stems_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEM", stem := module._StemOf())
    monkeypatch.setattr(module, "_MOST_WORDS", 3)
    said = ["trained", "of", "legs", "of", "runners", "trained"]
    assert terms(" ".join(said)) == ["train", "leg", "runner", "train"]
    assert len(stem) == 2  # of the last words


def test_weights_by_hand() -> None:
    """Of three texts two hold b; columns are a, b; the second text has no term."""
    found = tfidf([["b", "a", "b"], [], ["b"]])
    rare, common = math.log(4 / 2) + 1, math.log(4 / 3) + 1
    length = math.hypot(rare, 2 * common)
    expected = np.array([[rare / length, 2 * common / length], [0, 0], [0, 1]])
    assert found == pytest.approx(expected)
    assert tfidf([["b"], ["b"]]).tolist() == [[1.0], [1.0]], "what every text holds has a weight"
    assert tfidf([]).shape == (0, 0)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How long may an ankle be immobilised in a cast?", "English"),
        ("Wie lange darf der Knöchel in dem Gips sein?", "German"),
        ("Quel est le traitement des entorses chez les adultes?", "French"),
        ("¿Cuál es el tratamiento de los esguinces?", "Spanish"),
        ("Hoe lang mag een enkel in het gips zijn?", "Dutch"),
        ("как лечить растяжение", "Russian"),
        ("COVID-19 の治療法は何ですか", "Japanese"),
        ("如何治疗踝关节扭伤", "Chinese"),
        ("The α of a β blocker is what is given", "English"),  # a few letters are no script
        ("ibuprofen", ""),
        ("the ibuprofen of", "English"),
        ("ааа bcdefgh", "Russian"),  # three of ten letters
        ("the ibuprofen", ""),  # one common word is not enough
        ("un una", ""),  # Spanish and Italian alike
        ("", ""),
        ("7 + 7", ""),
    ],
)
def test_a_language_is_told_by_its_script_or_its_common_words(text: str, language: str) -> None:
    assert guess_language(text) == language
