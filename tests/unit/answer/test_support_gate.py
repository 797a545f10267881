from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from srrag.answer.extractive import DISAGREEMENT
from srrag.answer.support_gate import FAULTS, FITTED, Gate, GateFit, fitted
from srrag.answer.support_signs import Floats, Signs, Window, measures, signs, verbatim
from srrag.provenance import read_fitted

BED_REST = Window(
    "Guideline on low back pain",
    "Recommendations",
    "Adults with acute low back pain should stay active. Bed rest should not be prescribed for "
    "acute low back pain. In 240 adults pain was reduced by exercise (p = 0.01).",
)
ANKLE = Window(
    "Does a brace help after ankle sprain?",
    "Results",
    "A semi-rigid brace reduced recurrent sprains in 384 athletes over 12 months.",
)
STROKE = Window("Stroke units", "", "Stroke units lower mortality of patients after stroke.")
FALLS = Window("Falls", "", "Balance training prevents falls of women aged 75 and older.")
WINDOWS = [BED_REST, ANKLE, STROKE, FALLS]
QUESTION = "Should bed rest be prescribed for acute low back pain?"


def by_words(texts: Sequence[str]) -> Floats:
    """Vectors of words, so that a cosine is their overlap."""
    vectors = np.zeros((len(texts), 512), np.float32)
    for row, text in enumerate(texts):
        for word in text.casefold().replace(".", " ").replace(",", " ").split():
            vectors[row, sum(map(ord, word)) % 512] += 1.0
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)


def never(texts: Sequence[str]) -> Floats:
    raise AssertionError(f"no vector is needed, yet {texts} came")


def gate(question: str = QUESTION, encode: object = by_words) -> Gate:
    return Gate(question, WINDOWS, encode)  # type: ignore[arg-type]


def test_quotes_pass_without_a_vector() -> None:
    checking = gate(encode=never)
    assert checking.check("Bed rest should not be prescribed for acute low back pain.", [1]) == (
        (1,),
        "",
    )
    graded = "Grade C, randomised trial: A semi-rigid brace reduced recurrent sprains in 384 "
    assert checking.check(graded + "athletes over 12 months.", [2]).cites == (2,)
    limits = "The question asks about runners, while this evidence speaks of athletes."
    assert checking.check(limits, [2]).fault == ""
    other = "The question asks about runners, while this evidence speaks of swimmers."
    assert checking.check(other, [2]).fault == "unsupported"


def test_a_citation_that_does_not_support_goes_and_the_sentence_stays() -> None:
    said = "In 240 adults pain was reduced by exercise."
    assert gate().check(said, [3, 1]) == ((1,), "")


@pytest.mark.parametrize(
    "said",
    [
        "In 250 adults pain was reduced by exercise.",
        "In 240 adults pain was increased by exercise.",
        "Bed rest should be prescribed for acute low back pain in adults.",
        "Zinc shortens the common cold of schoolchildren.",
    ],
    ids=["number", "direction", "negation", "another topic"],
)
def test_what_the_window_does_not_say_is_unsupported(said: str) -> None:
    assert gate().check(said, [1]) == ((), "unsupported")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("Should bed rest be prescribed for acute low back pain? Yes.", "echo"),
        ("Does a brace help after ankle sprain?", "question_title"),
        ("Does a brace help after ankle sprain", "question_title"),
        ("Is exercise good?", "question_title"),
        ("…", "placeholder"),
        ("Your answer goes here.", "placeholder"),
        ("Sentence 1.", "placeholder"),
        ("<claim text>", "placeholder"),
        ("Yes.", "placeholder"),
    ],
)
def test_faults_have_names(said: str, fault: str) -> None:
    assert gate().check(said, [1]) == ((), fault)
    assert fault in FAULTS


def test_two_words_may_be_a_statement() -> None:
    found = Gate(QUESTION, [Window("Trial", "Results", "The pain soon fell.")], by_words)
    assert found.check("Pain fell.", [1]).fault != "placeholder"
    assert found.check("Pain.", [1]).fault == "placeholder"


def test_what_cites_everything_falls_unless_most_of_it_is_support() -> None:
    said = "In 240 adults pain was reduced by exercise."
    assert gate().check(said, [1, 2, 3, 4]) == ((), "cites_everything")
    few = Gate(QUESTION, WINDOWS[:2], by_words)
    assert few.check(said, [1, 2]) == ((1,), ""), "all of little is no suspicion"
    same = Gate(QUESTION, [BED_REST] * 4, by_words)
    assert same.check(said, [1, 2, 3, 4]) == ((1, 2, 3, 4), "")


def test_a_sentence_counts_once() -> None:
    checking = gate()
    said = "Bed rest should not be prescribed for acute low back pain."
    assert checking.check(said, [1]).fault == ""
    again = "For acute low back pain, bed rest should not be prescribed."
    assert checking.check(again, [1]).fault == "repeated"
    assert gate().check(again, [1]).fault == "", "it stands where it is the first"


def test_numbers_outside_the_evidence_are_no_citations() -> None:
    assert gate().check("Bed rest should not be prescribed.", []) == ((), "")
    assert gate().check("Bed rest should not be prescribed for acute low back pain.", [1, 9]) == (
        (1,),
        "",
    )


def test_signs_of_an_edited_sentence() -> None:
    same = signs("In 240 adults pain was reduced by exercise.", BED_REST, 1.0)
    assert (same.coverage, same.missing_numbers, same.opposed, same.unstated) == (1, 0, 0, 0)
    turned = signs("In 240 adults pain was increased by exercise.", BED_REST, 1.0)
    assert turned.opposed > 0.5
    assert signs("In 99 adults pain was reduced.", BED_REST, 1.0).missing_numbers == 1
    yes = signs("Bed rest should be prescribed for acute low back pain.", BED_REST, 1.0)
    assert yes.turned == 1
    assert signs("In children pain was reduced.", BED_REST, 1.0).population == 1
    assert verbatim("Adults with acute low back pain should stay active.", BED_REST)
    assert not verbatim("", BED_REST)


def test_the_packaged_fit_says_what_it_was_fitted_on() -> None:
    said = json.loads(FITTED.read_text("utf-8"))
    assert "develop half" in said["origin"] and said["pairs"]
    assert read_fitted(said, "support gate").questions
    assert 0 < fitted().far < 1 and 0 < fitted().near < 1


def test_a_fit_of_other_measures_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"weights": {"coverage": 1}, "bias": 0, "threshold": {}}')
    with pytest.raises(ValueError, match=r"other\.json"):
        fitted(path)


def test_no_score_outweighs_a_number_of_its_own() -> None:
    best = Signs(1, 1, 1, 0.0, 0, 0, 0, 1, 1, 0, 0, 0, 0)
    sure = GateFit(dict.fromkeys(measures(best), 9.0), 9.0, 0.1, 0.1)
    assert sure.supports(best)
    assert not sure.supports(best._replace(missing_numbers=0.1))
    assert not sure.supports(best._replace(population=1.0))


def test_a_quote_is_neither_an_echo_nor_a_placeholder() -> None:
    short = Window("Exercise", "", "The evidence is mixed. Rest.")
    for said in ("The evidence is mixed.", "Rest."):
        assert gate().check(said, [1]) == ((), "placeholder")
        assert Gate(QUESTION, [*WINDOWS, short], never).check(said, [5]) == ((5,), "")
    question = "Should adults with acute low back pain stay active"
    asked = "Adults with acute low back pain should stay active."
    assert gate(asked).check(f"{asked} So it is.", [1]).fault == "echo"
    assert gate(asked, never).check(asked, [1]) == ((1,), "")
    assert gate(question).check("Stay active, adults.", []).fault == ""


def test_that_papers_disagree_may_be_said_of_any(fit: GateFit) -> None:
    checking = Gate(QUESTION, WINDOWS, never, fit)
    assert checking.check(DISAGREEMENT, [1, 4]) == ((1, 4), "")


@pytest.fixture
def fit() -> GateFit:
    """A fit by which nothing suffices."""
    return GateFit(dict.fromkeys(fitted().weights, 0.0), 0.0, 0.9, 0.9)


def test_the_fit_that_is_given_decides(fit: GateFit) -> None:
    said = "In 240 adults pain was reduced by exercise."
    assert Gate(QUESTION, WINDOWS, by_words, fit).check(said, [1]) == ((), "unsupported")
    easy = GateFit(fit.weights, 0.0, 0.5, 0.5)
    assert Gate(QUESTION, WINDOWS, by_words, easy).check(said, [1]) == ((1,), "")


def test_half_of_everything_is_no_suspicion_and_less_is() -> None:
    said = "In 240 adults pain was reduced by exercise."
    for supporting, cites in ((2, (1, 2)), (3, (1, 2, 3))):
        windows = [BED_REST] * supporting + [STROKE] * (5 - supporting)
        verdict = Gate(QUESTION, windows, by_words).check(said, [1, 2, 3, 4, 5])
        assert verdict == ((cites, "") if supporting == 3 else ((), "cites_everything"))
    half = Gate(QUESTION, [BED_REST, BED_REST, STROKE, ANKLE], by_words)
    assert half.check(said, [1, 2, 3, 4]) == ((1, 2), "")


def test_nine_words_of_ten_are_a_repetition_and_another_number_is_none() -> None:
    words = "Balance training prevents falls in healthy elderly women with hip fracture surgery"
    checking = gate(encode=never)
    assert checking.check(words, []).fault == ""
    assert checking.check(words.rpartition(" ")[0], []).fault == "repeated"
    assert checking.check(" ".join(words.split()[:-2]), []).fault == ""
    assert checking.check(f"{words} in 30", []).fault == ""
    assert checking.check(f"{words} in 40", []).fault == "", "other figures are other statements"
    assert checking.check(f"{words} in 30", []).fault == "repeated"
