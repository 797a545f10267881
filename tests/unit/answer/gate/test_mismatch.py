import pyarrow as pa

from srrag.answer.gate.mismatch import (
    FoundMismatch,
    NoticeMismatch,
    Source,
    asked_people,
    notice,
    rule_mismatches,
)
from srrag.core.schema import ANCHORS, EVIDENCE, empty_value
from srrag.core.step import Place

QUESTION = "Should adults with knee pain walk?"
STEP = NoticeMismatch()


def batch(*titles: str) -> pa.Table:
    empty = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    items = [
        empty | {"evidence_id": f"e{i}", "doc_id": f"d{i}", "title": title, "text": "Pain fell."}
        for i, title in enumerate(titles, 1)
    ]
    anchors = {part: list[str]() for part in "PICOT"} | {"P": ["adults with knee pain"]}
    return pa.table(
        {
            "text": [QUESTION],
            "anchors": pa.array([anchors], ANCHORS),
            "evidence": pa.array([items], EVIDENCE),
        }
    )


TABLE = batch("Walking of adults with knee pain", "Knee pain in adolescents [9]")


def test_rules_notice_other_people() -> None:
    row = STEP.open(Place())(TABLE).to_pylist()[0]
    assert row["mismatches"] == [
        {"evidence_id": "e2", "part": "P", "asked": "adults with knee pain", "found": "adolescents"}
    ]
    assert row["notice"] == (
        "The question asks about “adults with knee pain”, but evidence 2 speaks of “adolescents”."
    )
    nothing = STEP.open(Place())(batch("Walking of adults with knee pain")).to_pylist()[0]
    assert (nothing["mismatches"], nothing["notice"]) == ([], "")


def test_a_notice_names_the_best_evidence_by_what_it_speaks_of() -> None:
    each = [
        FoundMismatch(1, "P", "adults", "rats"),
        FoundMismatch(3, "P", "adults", "rats"),
        FoundMismatch(2, "I", "", "surgery"),
        FoundMismatch(4, "P", "adults", "mice"),
    ]
    assert notice(each, 3) == (
        "The question asks about “adults”, but evidence 1 and 3 speak of “rats”. "
        "Other than the question, evidence 2 speaks of “surgery”."
    )
    assert notice(each, 0) == ""


def test_no_evidence_has_no_notice() -> None:
    assert STEP.open(Place())(batch()).to_pylist()[0]["notice"] == ""


NOBODY: dict[str, list[str]] = {part: [] for part in "PICOT"}
SHOCK_WAVES = "Extracorporeal shock wave therapy"
HEEL = Source("d1", f"{SHOCK_WAVES} for plantar heel pain lasting three months", "Pain fell.")
NECK = Source("d2", "Strength training for chronic neck pain", "Neck strength rose.")


def found(
    question: str, anchors: dict[str, list[str]], *sources: Source
) -> list[tuple[int, str, str, str]]:
    mismatches = rule_mismatches(question, NOBODY | anchors, sources)
    return [(each.number, each.part, each.asked, each.found) for each in mismatches]


def test_another_condition_is_a_mismatch() -> None:
    asked = {"P": ["adults with plantar heel pain"]}
    expected = [(2, "P", "plantar heel pain", "chronic neck pain")]
    assert found("Does it help plantar heel pain?", asked, HEEL, NECK) == expected


def test_one_word_of_the_condition_anywhere_in_the_document_is_enough() -> None:
    asked = {"P": ["plantar heel pain"]}
    other = Source("d2", "", "The heel was not studied.")
    assert found("Q?", asked, NECK, other) == []
    initials = Source("d3", "Recovery of neck pain", "PHP was common.")
    assert found("Q?", asked, initials) == []


def test_missing_parts_are_no_mismatch() -> None:
    assert found("Q?", {}, HEEL, NECK) == []
    assert found("Q?", {"P": ["patients"]}, HEEL, NECK) == []
    assert found("Q?", {"P": ["heel pain"]}, Source("d", "", "")) == []


def test_another_intervention_only_if_none_has_the_one_asked_about() -> None:
    asked = {"I": ["botulinum toxin injection"]}
    question = "Does a botulinum toxin injection help plantar heel pain?"
    expected = [(1, "I", "botulinum toxin injection", SHOCK_WAVES)]
    assert found(question, asked, HEEL) == expected
    held = Source("d4", "Neurotoxins", "Botulinum toxin was injected.")
    assert found(question, asked, HEEL, held) == []


def test_what_the_question_names_is_no_mismatch() -> None:
    asked = {"P": ["people with diabetes"]}
    assert found("Heel pain in people with diabetes?", asked, HEEL) == []


def test_traits_come_before_conditions() -> None:
    asked = {"P": ["children with plantar heel pain"]}
    adults = Source("d5", "Neck pain in adults", "")
    expected = [(1, "P", "children with plantar heel pain", "adults")]
    assert found("Q?", asked, adults) == expected


def test_animals_are_a_mismatch_unless_asked_about() -> None:
    rats = Source("d6", "Tendon repair in rats", "")
    assert found("Does it help tendons?", {}, rats) == [(1, "P", "", "rats")]
    assert found("Does it help tendons of animals?", {}, rats) == []
    assert found("What causes fever?", {}, Source("d7", "Rat bite fever", "")) == []


def test_a_verb_is_no_intervention() -> None:
    assert found("Which receptors are targeted?", {"I": ["targeted"]}, HEEL) == []
    asked = {"I": ["hydrodilatation"]}
    assert found("Hydrodilatation?", asked, HEEL) == [(1, "I", "hydrodilatation", SHOCK_WAVES)]


def test_words_that_only_look_like_conditions_are_none() -> None:
    assert found("Q?", {"P": ["fruit aroma", "an early diagnosis"]}, NECK) == []


def test_whom_a_question_is_about_stands_at_its_end() -> None:
    asked = {
        "Does rest relieve pain in the knee in patients with gout of the toe?":
            "patients with gout of the toe?",
        "Is yoga safe in pregnancy?": "pregnancy?",
        "How effective is physiotherapy for whiplash?": "whiplash?",
        "What is the effect of rest on pain in subjects with pain in the knee?":
            "subjects with pain in the knee?",
        "What changes in quality of life are to be expected?": "",
    }  # fmt: skip
    assert {question: asked_people(question) for question in asked} == asked
