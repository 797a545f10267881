"""Which words of a question evidence holds, and what they weigh."""

from __future__ import annotations

import numpy as np
import pytest

from srrag.answer.gate.coverage import (
    FEATURES,
    Frequencies,
    TextSource,
    count_texts,
    features,
    held,
    missing_words,
)

RARE = Frequencies(1000, {"pain": 300, "neck": 60, "physiotherapi": 9, "manual": 40})


def named(question: str, *texts: str) -> dict[str, float]:
    """FEATURES by name."""
    found = held(question, [TextSource(str(n), (text,)) for n, text in enumerate(texts)], RARE)
    return dict(zip(FEATURES, features(found).tolist(), strict=True))


def missing(question: str, *texts: str) -> list[str]:
    return missing_words(held(question, [TextSource("d", (text,)) for text in texts], RARE))


def test_a_word_weighs_by_how_rare_it_is() -> None:
    few = Frequencies(99, {"pain": 99, "neck": 9})
    assert few.weight("pain") == 0
    assert few.weight("neck") == pytest.approx(0.5)
    assert few.weight("whiplash") == 1


def test_words_that_are_nowhere_are_named_but_no_general_ones() -> None:
    text = "Physiotherapy for neck pain"
    assert missing("Is physiotherapy better than another for whiplash?", text) == ["whiplash"]
    assert missing("Which other treatment works in week 12?", text) == []


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("Does BMD rise?", "bone mineral density rose"),
        ("In anaemia?", "iron for anemia"),
        ("Is strengthening safe?", "Strengthens the quadriceps"),
        ("Is exercise&nbsp;training safe?", "exercise training"),
        ("Is amyotrophic lateral sclerosis fatal?", "fatal in ALS"),
        ("Does stretching gain range of motion?", "stretching gains: ROM"),
        ("Does irritable bowel (IB) ease?", "a diet for IB"),
        ("Should surgery beat exercise?", "surgery and exercise"),
    ],
)
def test_other_forms_of_a_word_hold_it(asked: str, text: str) -> None:
    assert missing(asked, text) == []


def test_a_word_is_held_by_an_acronym_of_its_own_run_alone() -> None:
    asked = "Is amyotrophic lateral sclerosis painful?"
    assert missing(asked, "pain in MS and als") == ["amyotrophic", "sclerosis"]
    assert missing("Does yoga calm whiplash?", "YW, YCW of neck") == []
    assert missing("Does yoga calm whiplash?", "YW of neck") == ["yoga", "calm", "whiplash"]


def test_a_paper_counts_as_a_whole_and_best_passages_alone() -> None:
    question = "physiotherapy neck"
    apart = named(question, "physiotherapy", "neck")
    joined = features(
        held(question, [TextSource("d", ("physiotherapy",)), TextSource("d", ("neck",))], RARE)
    ).tolist()
    assert apart["document_coverage"] < 1
    assert joined[FEATURES.index("document_coverage")] == pytest.approx(1)
    assert joined[FEATURES.index("passage_coverage")] == pytest.approx(apart["passage_coverage"])


def test_nothing_found_is_all_absent() -> None:
    empty = named("whiplash")
    assert empty["absent_telling"] == 1
    assert empty["document_coverage"] == 0
    assert np.isfinite(features(held("?", [], RARE))).all()


def test_frequencies_count_texts_once() -> None:
    found = count_texts(["pain, pain and pains", "pain", "neck"], least=2)
    assert found == Frequencies(3, {"pain": 2})


def test_a_letter_tells_vitamins_from_each_other() -> None:
    asked = "Does vitamin D reduce pain?"
    assert missing(asked, "vitamin C reduces pain") == ["vitamin D"]
    assert missing(asked, "vitamins C, D and E reduce pain") == []
    assert missing("Does tape treat hepatitis B?", "tape treats HBV") == []
    assert missing("Does tape treat hepatitis B?", "tape treats HCV") == ["hepatitis B"]
    assert missing("Does a vitamin help?", "vitamin C helps") == []


def test_a_word_with_one_wrong_letter_is_held_if_medicine_does_not_know_it() -> None:
    assert missing("Are aderse effects seen with tape?", "adverse effects with tape") == []
    assert missing("Is pasive tape useful?", "passive tape") == []
    assert missing("Is it shingles?", "a single one") == ["shingles"]
    assert missing("Is ibuprofen useful?", "naproxen") == ["ibuprofen"]
    assert missing("Does tape help?", "type") == ["tape"]
    assert missing("Is a tope useful?", "tape") == ["tope"]


def test_an_acronym_behind_its_own_words_asks_for_nothing_more() -> None:
    assert missing("Does tape raise heat pain thresholds (HPT)?", "tape heat pain thresholds") == []
    assert missing("Does tape raise pain (CON)?", "tape pain") == ["CON"]
