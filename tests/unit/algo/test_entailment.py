from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.algo.entailment import GIVEN_WEIGHT, content_stems, entails
from srrag.lab.measure.references import read_qrels

TEXT = (
    "Eccentric training reduced pain at 12 weeks. Strength was unchanged. "
    "Patients should see a doctor if pain persists."
)


@pytest.mark.parametrize(
    "claim",
    [
        "Eccentric training reduced pain at 12 weeks.",
        "At 12 weeks pain had decreased with eccentric exercise",
        "Consult a healthcare professional if pain persists",
    ],
)
def test_what_a_text_states_is_supported(claim: str) -> None:
    assert entails(TEXT, claim).verdict == "supported"


@pytest.mark.parametrize(
    "claim",
    ["Shock wave therapy relieves calcific tendinopathy", "Corticosteroids may rupture tendons"],
)
def test_what_it_does_not_speak_of_is_neutral(claim: str) -> None:
    assert entails(TEXT, claim).verdict == "neutral"


def test_the_score_by_hand() -> None:
    """Of four words "eccentric" and "train" are found, 2 / 4, in a sentence and in all."""
    assert content_stems("Eccentric training heals cartilage") == [
        "eccentr", "exercis", "heal", "cartilag",
    ]  # fmt: skip
    assert entails(TEXT, "Eccentric training heals cartilage").score == pytest.approx(0.5)


def test_words_of_the_question_weigh_less() -> None:
    found = entails(TEXT, "Eccentric training heals cartilage", "Does eccentric training help?")
    assert found.score == pytest.approx(2 * GIVEN_WEIGHT / (2 * GIVEN_WEIGHT + 2))


def test_a_number_that_is_not_there_halves_the_score() -> None:
    right = entails(TEXT, "Eccentric training reduced pain at 12 weeks")
    wrong = entails(TEXT, "Eccentric training reduced pain at 26 weeks")
    assert right.score == 1.0
    assert wrong.score == pytest.approx(4 / 5 / 2, abs=0.02)
    assert "26" in wrong.reason


def test_a_long_claim_with_a_dose_that_is_not_there_is_not_supported() -> None:
    given = "Adults took paracetamol 500 mg tablets every six hours with food for severe back pain."
    assert entails(given, given).verdict == "supported"
    assert entails(given, given.replace("500", "5000")).verdict == "neutral"


@pytest.mark.parametrize(
    ("there", "here"), [("0·73", "0.73"), ("1,200", "1200"), ("0.80", "0.8"), ("12.0", "12")]
)
def test_a_number_is_the_same_however_it_is_written(there: str, here: str) -> None:
    text = f"Deaths fell with metformin in adults with diabetes (hazard ratio {there})."
    assert entails(text, text.replace(there, here)).verdict == "supported"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hypotension", "Hypothyroidism"), ("Hyperglycemia", "Hyperkalemia"),
        ("Antibodies", "Antibiotics"), ("Intravenous lidocaine", "Intravaginal lidocaine"),
    ],
)  # fmt: skip
def test_words_with_one_beginning_are_not_one_word(one: str, other: str) -> None:
    text = f"{one} may follow."
    assert entails(text, text).score == 1.0
    assert entails(text, f"{other} may follow.").score < 1.0
    assert entails("Infectious agents spread.", "Infection spreads by agents").score == 1.0


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("Immobilisation is not recommended after a sprain.", "Immobilisation after a sprain"),
        ("Training increases pain.", "Training reduces pain"),
        ("Manipulation is safe in adults.", "Manipulation is harmful in adults"),
    ],
)
def test_a_denial_is_no_support(text: str, claim: str) -> None:
    assert entails(text, claim).verdict == "contradicted"


def test_a_negation_about_something_else_is_no_denial() -> None:
    text = "Time alone is not sufficient, and hop distance should reach 90% of the other limb."
    claim = "Hop distance should reach 90% of the other limb"
    assert entails(text, claim).verdict == "supported"
    both = "Training does not increase pain."
    assert entails(both, "Training does not increase pain").verdict == "supported"


@pytest.mark.parametrize(("text", "claim"), [("", "pain"), (TEXT, ""), (TEXT, "the of"), ("", "")])
def test_nothing_is_neutral(text: str, claim: str) -> None:
    assert entails(text, claim)[:2] == ("neutral", 0.0)


@given(st.text(max_size=80), st.text(max_size=40), st.text(max_size=20))
def test_scores_lie_between_zero_and_one(text: str, claim: str, question: str) -> None:
    found = entails(text, claim, question)
    assert 0 <= found.score <= 1 + 1e-9
    assert found.reason


@given(st.text(alphabet="abcdefgh .", min_size=1, max_size=60))
def test_every_text_states_itself(text: str) -> None:
    if content_stems(text):
        assert entails(text, text, threshold=0.5).score >= 0.5


def test_experts_answers_rest_on_their_own_passages(shared_data: Path) -> None:
    """BioASQ: sentences of ideal answers against their gold passages, and another question's."""
    folder = shared_data / "bioasq"
    lines = (folder / "corpus.jsonl").read_text("utf-8").splitlines()
    passages = {row["_id"]: row["text"] for row in map(json.loads, lines)}
    judged = read_qrels(folder / "qrels" / "test.tsv")
    rows = [json.loads(line) for line in (folder / "answers.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["ideal_answer"] and row["id"] in judged][:120]
    own, others = [], []
    for row, other in zip(rows, [*rows[60:], *rows[:60]], strict=True):
        sentence = row["ideal_answer"][0].split(". ")[0]
        for found, name in ((own, row["id"]), (others, other["id"])):
            texts = (passages[passage] for passage in judged[name])
            found.append(
                any(entails(t, sentence, threshold=0.6).verdict == "supported" for t in texts)
            )
    assert sum(own) > 0.85 * len(own)
    assert sum(others) < 0.02 * len(others)
