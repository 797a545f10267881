from __future__ import annotations

import csv
import re
from collections import Counter

import pytest

from srrag.answer.select.candidates import Passage, candidates
from srrag.answer.select.quotes import ExtractRule
from srrag.reading.lexicon import KINDS, kinds_of, lettered, lexicon, named_terms
from tests.conftest import REPOSITORY

SRRAG = REPOSITORY / "srrag"
ROWS = [
    *csv.DictReader(
        (SRRAG / "reading" / "lexicon.tsv").read_text("utf-8").splitlines(),
        delimiter="\t",
        quoting=csv.QUOTE_NONE,
    )
]


def test_each_class_is_read_somewhere_and_compiles() -> None:
    code = "\n".join(path.read_text("utf-8") for path in SRRAG.rglob("*.py"))
    for name in {row["class"] for row in ROWS}:
        assert re.search(rf"[\"']{name}[\"']", code), f"no code reads the class {name}"
        assert lexicon(name).search("") is None


def test_no_word_stands_twice_in_a_class() -> None:
    words = Counter(
        (row["class"], word)
        for row in ROWS
        if "(" not in row["pattern"]
        for word in row["pattern"].split("|")
    )
    assert [each for each, times in words.items() if times > 1] == []


PAPER = (
    "A randomised trial of yoga in 120 pregnant women is reported here. Pain was lower with yoga "
    "than without it (P = 0.01). {harm} Yoga was taught twice a week for eight weeks in pregnancy."
)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Is yoga safe?", "no adverse events"),
        ("What are the side effects?", "complications were rare"),
        ("Do fewer patients die?", "mortality was lower"),
        ("What does it cost?", "the cheaper option"),
        ("Does it come with relapse?", "recurrences at a year"),
        ("Does it avoid hospitalisation?", "were admitted"),
    ],
)
def test_words_of_one_kind_are_the_same_term(asked: str, told: str) -> None:
    assert {*named_terms(asked)} & {*named_terms(told)} & {*KINDS}


def test_other_words_keep_their_stems() -> None:
    assert named_terms("pain of the knee") == ["pain", "knee"]
    assert "harm" not in named_terms("the side of the knee, and its effect")
    assert kinds_of(named_terms("deaths and pain")) == {"death"}


@pytest.mark.parametrize("harm", ["No harm was seen.", "Adverse events were as common as before."])
def test_a_question_on_safety_leads_with_what_is_said_of_harm(harm: str) -> None:
    passage = Passage(PAPER.format(harm=harm), "Yoga in pregnancy", "", "C")
    assert ExtractRule()("Is yoga safe in pregnancy?", [passage]).choices[0].text == harm


def test_a_finding_may_be_short_and_a_fragment_may_not() -> None:
    passage = Passage(PAPER.format(harm="No harm was seen. Harm not seen."), "Yoga", "", "C")
    quoted = [each.text for each in candidates([passage])]
    assert "No harm was seen." in quoted and "Harm not seen." not in quoted


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
