"""Names that a letter or a number tells from each other."""

import pytest

from srrag.answer.select.candidates import Passage
from srrag.answer.select.quotes import ExtractRule
from srrag.reading.lexicon import lettered


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Does vitamin D help?", ["vitamin d"]),
        ("vitamins C, D and E", ["vitamin c", "vitamin d", "vitamin e"]),
        ("a vitamin d dose", ["vitamin d"]),
        ("hepatitis B or HCV", ["hepat b", "hepat c"]),
        ("omega-3 fatty acids", ["omega 3"]),
        ("a factor in the game of vitamin", []),
    ],
)
def test_a_letter_is_part_of_a_name(text: str, names: list[str]) -> None:
    assert list(lettered(text)) == names


def test_a_paper_on_another_vitamin_leads_no_answer() -> None:
    other = Passage("Vitamin C reduced pain in adults.", "", "Results", "C", paper="one")
    asked = Passage("Vitamin D reduced falls in adults.", "", "Results", "C", paper="two")
    found = ExtractRule(min_coverage=0.0)("Does vitamin D reduce pain in adults?", [other, asked])
    assert found.choices == []
    assert found.unnamed == "pain"
