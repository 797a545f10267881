from __future__ import annotations

import pytest

from srrag.algo.language import guess_language


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
