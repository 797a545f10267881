"""What a clinician reads of real answers, given by a server on public abstracts."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from srrag.answer.clinical.asked import asked_question, other_language
from srrag.answer.clinical.findings import stated_effects
from srrag.answer.clinical.paper import claimed_guideline, enrolled, papers_of, population
from srrag.answer.clinical.stance import LEAST_OUTCOME, PapersAgree, direction_in, on_outcome
from srrag.answer.clinical.summary import (
    LOWER,
    ClinicalReading,
    _agree,
    as_bibtex,
    as_ris,
    clinical_reading,
    reference_line,
)

ANSWERS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "answers.json").read_text("utf-8")
)
SOY = {"I": ["Whey protein"], "C": ["Soy protein on Strength"]}


def read(name: str) -> ClinicalReading:
    answer = ANSWERS[name]
    return clinical_reading(answer, answer["anchors"], answer["why"])


def kinds(reading: ClinicalReading) -> set[str]:
    return {point.kind for point in reading.untold}


def item(number: int, **more: Any) -> dict[str, Any]:
    told = {
        "number": number, "doc_id": f"d{number}", "title": "", "text": "", "section": "",
        "year": 0,
        "grade": "C", "study": "randomised trial", "grade_source": "metadata", "source_id": "s",
        "pmid": "", "standing": "ok", "standing_link": "",
        "unit_id": f"u{number}",
    }  # fmt: skip
    return {**told, **more}


# ---- whole answers ----


def test_a_difference_between_groups_comes_before_what_changed_within_them() -> None:
    reading = read("kujala")
    (line,) = reading.bottom_line
    assert line.says == reading.certainty.says == "no difference" and line.citations == (3,)
    (finding,) = reading.findings
    assert [each.text for each in finding.effects] == ["group difference 1.1 (95% CI -7.4 - 5.2)"]
    assert (finding.effects[0].low, finding.effects[0].high) == ("-7.4", "5.2")
    assert finding.before == "Both groups showed marked improvement during the follow-up."
    assert finding.after.startswith("Total direct healthcare costs")
    assert finding.population == "chronic patellofemoral pain syndrome"


def test_papers_that_contradict_each_other_are_named_also_if_not_cited() -> None:
    reading = read("head_ct")
    assert reading.certainty.says == "depends" and "do not agree (3 no, 2 yes)" in (
        reading.certainty.sentence
    )
    conflict = next(point.text for point in reading.untold if point.kind == "conflict")
    assert "[1][4][12] say no; [2][9] say yes" in conflict
    assert [line.citations for line in reading.bottom_line] == [(9,), (12,)], "both sides"
    assert [line.says for line in reading.bottom_line] == ["", ""], "neither is clear"
    assert {f.number for f in reading.findings if not f.cited} == {1, 4}
    assert reading.certainty.grade == "D" and reading.certainty.grades == {"D": 1, "": 3}
    assert LOWER not in reading.certainty.sentence


def test_the_grade_is_that_of_the_first_sentence_also_where_a_better_one_is_cited() -> None:
    answer = copy.deepcopy(ANSWERS["head_ct"])
    other = next(each for each in answer["evidence"] if each["number"] == 12)
    other["grade"] = "B"
    reading = clinical_reading(answer, answer["anchors"], answer["why"])
    assert [line.citations for line in reading.bottom_line] == [(9,), (12,)]
    assert reading.certainty.grade == "D" and reading.certainty.grades == {"B": 1, "D": 1, "": 2}
    assert LOWER in reading.certainty.sentence


def test_another_comparison_than_asked_says_nothing_of_it() -> None:
    reading = read("soy")
    assert reading.certainty.says == "" and not any(line.says for line in reading.bottom_line)
    assert reading.heading == "Bottom line", "the quote names strength"
    states = {part.part: (part.state, part.numbers) for part in reading.match}
    assert states["C"] == ("yes", (1,)) and states["P"][0] == "not_asked"


def test_a_treatment_that_all_groups_receive_is_not_judged_by_what_is_added_to_it() -> None:
    assert read("knee").certainty.says == "", "no difference between two ways of exercise"


def test_the_time_asked_for_decides_between_two_quotes() -> None:
    reading = read("weight_loss")
    assert reading.bottom_line[0].text.startswith("At 1-year")
    assert [finding.says for finding in reading.findings] == ["no difference", ""]
    assert reading.findings[0].effects[0].text == "−3.9 ± 3.3 kg vs. −3.1 ± 2.6 kg"


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Pain was significantly lower after taping than after rest.", "decreased"),
        ("Pain was lower after taping (p = 0.03).", "decreased"),
        ("Pain was lower after taping than after rest.", "unclear"),
        ("Pain was significantly lower in the brace group.", "unclear"),
        ("There was a significant trend to lower pain after taping.", "unclear"),
        ("Pain was significantly lower after taping among women only.", "unclear"),
        ("Pain did not differ between the groups.", "no difference"),
        ("Pain did not differ (p = 0.052), and disability was significantly lower.", "unclear"),
        ("Pain fell with taping, but not in the groups without it.", "unclear"),
        ("Both treatments had comparable effects on pain.", "unclear"),
    ],
)
def test_more_or_less_is_told_only_where_a_sentence_is_clear(sentence: str, said: str) -> None:
    asked = asked_question("What is the effect of taping compared with rest on pain?", {})
    assert direction_in(asked, sentence) == said


def test_better_is_no_direction_of_what_may_be_too_high_or_too_low() -> None:
    asked = asked_question("What is the effect of walking compared with rest on glucose?", {})
    assert direction_in(asked, "Glucose improved significantly with walking.") == "unclear"
    assert direction_in(asked, "Glucose was significantly lower with walking.") == "decreased"


def test_a_condition_is_the_population_of_a_question() -> None:
    parts = {"P": ["cast"], "I": ["acute lateral ankle sprain"]}
    asked = asked_question("How long may an acute lateral ankle sprain be in a cast?", parts)
    assert (asked.P, asked.I) == ("acute lateral ankle sprain", "cast")


def test_by_what_an_outcome_was_measured_is_no_part_of_it() -> None:
    asked = asked_question(
        "What is the effect of paroxetine compared with placebo on anxiety according to the HADS?",
        {},
    )
    assert (asked.O, asked.outcome) == ("anxiety according to the HADS", "anxiety")


def test_what_is_not_told_is_computed_from_the_papers() -> None:
    points = {point.kind: point.text for point in read("balance").untold}
    assert points["missing"] == (
        "No cited paper speaks of the population that you asked about (“older” and “adults”)."
    )
    assert {"single", "no_guideline", "no_interval", "harm", "year"} <= points.keys()
    assert points["no_guideline"].startswith("No guideline and no systematic review")


def test_an_abstention_has_no_bottom_line_and_no_finding() -> None:
    reading = read("taping")
    assert reading.heading == "Not enough evidence"
    assert reading.bottom_line == reading.findings == reading.untold == reading.references == ()
    assert reading.certainty.sources == 0 and reading.ris == reading.bibtex == ""


@pytest.mark.parametrize("name", ANSWERS)
def test_all_that_is_shown_of_a_paper_stands_in_it(name: str) -> None:
    reading, evidence = read(name), {e["number"]: e for e in ANSWERS[name]["evidence"]}
    for finding in reading.findings:
        whole = " ".join(
            f"{evidence[finding.number]['title']} {evidence[finding.number]['text']}".split()
        )
        assert finding.quote in whole and finding.before in whole and finding.after in whole
        assert all(effect.text.rstrip(")]") in finding.quote for effect in finding.effects)
        assert finding.population in whole
    quoted = " ".join(each["text"] for each in ANSWERS[name]["sentences"])
    assert all(line.text in quoted and line.citations for line in reading.bottom_line)


# ---- parts ----


def test_the_parts_of_a_question_and_its_claim() -> None:
    asked = asked_question(
        "What is the effect of Whey protein compared with Soy protein on Strength?", SOY
    )
    assert (asked.I, asked.C, asked.O, asked.claim) == (
        "Whey protein",
        "Soy protein",
        "Strength",
        "",
    )
    parts = {"P": ["knee osteoarthritis"], "I": ["exercise"], "O": ["pain"]}
    less = asked_question("Does exercise reduce pain in knee osteoarthritis?", parts)
    assert less.claim == "decreased"
    assert (
        less.answer_of("decreased"),
        less.answer_of("no difference"),
        less.answer_of("unclear"),
    ) == (
        "yes",
        "no",
        "",
    )
    better = asked_question("Does exercise improve balance in older adults?", {"I": ["exercise"]})
    assert better.claim == "increased", "more of a good thing"
    assert asked_question("Can a cast be removed?", {}).answer_of("increased") == ""


@pytest.mark.parametrize(
    ("sentence", "texts"),
    [
        ("Falls were rarer (RR 0.77, 95% CI 0.71 to 0.83; P < 0.001).",
         ["RR 0.77, 95% CI 0.71 to 0.83"]),
        ("It was rarer [odds ratio (OR) 0.93; 95% confidence interval 0.86-1.01].",
         ["odds ratio (OR) 0.93; 95% confidence interval 0.86-1.01"]),
        ("Strength rose by 11.8 kilograms per week.", ["by 11.8 kilograms per week"]),
        ("The diet was 67:15:18% fat to protein.", []),
        ("They walked faster (p = 0.03).", ["p = 0.03"]),
        ("Nothing is told.", []),
    ],
)  # fmt: skip
def test_effects_are_read_as_they_are_stated(sentence: str, texts: list[str]) -> None:
    assert [each.text for each in stated_effects(sentence)] == texts


@pytest.mark.parametrize(
    ("title", "grade", "source", "claims"),
    [
        ("Guideline for ankle sprains", "A", "publication_type", ""),
        ("Guideline for ankle sprains", "A", "rule:guideline_title", "its own wording"),
        ("Ankle sprains: a guideline", "D", "metadata", "but is graded D"),
        ("Adherence to guidelines for ankle sprains", "D", "metadata", ""),
        ("Bracing after sprain", "C", "metadata", ""),
    ],
)
def test_what_only_calls_itself_a_guideline_is_told(
    title: str, grade: str, source: str, claims: str
) -> None:
    (paper,) = papers_of([item(1, title=title, grade=grade, grade_source=source)], {1})
    told = claimed_guideline(paper)
    assert claims in told and bool(told) == bool(claims)


def test_population_and_number_enrolled_in_the_words_of_the_paper() -> None:
    title = "Fitness outcomes of exercise training for men with prostate cancer: the ENGAGE study"
    text = "We randomised 147 men to exercise or usual care. Forty women were included later."
    (paper,) = papers_of([item(1, title=title, text=text)], {1})
    assert population(paper) == "men with prostate cancer" and enrolled(paper) == "147"
    (silent,) = papers_of([item(1, title="Whey with or without carbohydrates", text="None.")], {1})
    assert population(silent) == enrolled(silent) == ""


def test_passages_of_one_paper_count_once() -> None:
    evidence = [item(1, title="A", pmid="7"), item(2, title="A"), item(3, title="B", pmid="8")]
    papers = papers_of(evidence, {2})
    assert [[each["number"] for each in paper.items] for paper in papers] == [[1, 2], [3]]
    assert papers[0].number == 2 and papers[1].cited == ()


def test_references_hold_what_is_known_and_escape_the_rest() -> None:
    (paper,) = papers_of(
        [item(4, title="Rest & 50% {less}", pmid="123", year=2020, standing="retracted")], {4}
    )
    ris = as_ris([paper]).split("\r\n")
    assert ris[:4] == ["TY  - JOUR", "TI  - Rest & 50% {less}", "PY  - 2020", "AN  - 123"]
    assert "ER  - " in ris and any("retracted" in line for line in ris)
    assert r"title = {{Rest \& 50\% \{less\}}}" in as_bibtex([paper]) and "@article{pmid123," in (
        as_bibtex([paper])
    )
    line = reference_line(paper)
    assert line.startswith("[4] Rest & 50% {less}. 2020. PMID 123. Grade C (randomised trial)")


def test_a_question_in_another_language_is_told() -> None:
    texts = ["The patients in the study were treated with exercise and the pain was less."]
    told = other_language("Wie lange darf der Knöchel nach einer Verletzung in den Gips?", texts)
    assert told.startswith("Your question seems to be in German; the papers here are in English.")
    assert other_language("How long may the ankle be in a cast?", texts) == ""
    assert other_language("ACL exercise", texts) == "", "too short to tell"


def test_an_interval_with_signs_and_units_is_one() -> None:
    (found,) = stated_effects("No difference (difference −5 mm (95 % CI: −15 mm - +5 mm)).")
    assert (found.low, found.high, found.level) == ("−15", "+5", "95")


def test_a_named_ratio_is_an_effect_without_its_interval_too() -> None:
    found = stated_effects(
        "They were more likely to improve (odds ratio [OR] = 2.69, confidence interval [CI] = "
        "7.24–1.00, and OR = 3.75, respectively)."
    )
    assert [each.text for each in found] == ["odds ratio [OR] = 2.69", "OR = 3.75"]


def test_a_short_form_that_the_question_defines_names_the_outcome() -> None:
    asked = asked_question(
        "What is the effect of cycling compared with running on the root mean square of "
        "successive differences in consecutive windows (rMSSD30s), heart rate recovery (HRR)?",
        {},
    )
    assert asked.O.endswith("heart rate recovery (HRR)")
    assert on_outcome(asked, ["HRR was greater after cycling.", "Speed was greater."]) == [
        pytest.approx(LEAST_OUTCOME), 0.0,
    ]  # fmt: skip


def test_a_paper_that_speaks_of_the_outcome_unclearly_is_told_as_that() -> None:
    none = PapersAgree("", ())
    assert (
        _agree(none, 0, 0, True) == "No direction for this outcome could be read from the papers."
    )
    assert (
        _agree(none, 0, 1, False)
        == "One paper speaks of this outcome; which way, no rule could read."
    )
    assert (
        _agree(none, 0, 3, False)
        == "3 papers speak of this outcome; which way, no rule could read."
    )
    told = "One paper speaks of this outcome, and its sentences do not all say the same."
    assert _agree(none, 0, 1, True) == told
    answer = ANSWERS["weight_loss"]
    reading = clinical_reading(answer, answer["anchors"], answer["why"])
    assert reading.certainty.agree == told
    assert reading.findings[0].says == "no difference", "as its own sentence does"
    assert _agree(none, 1, 2, False) == "One paper speaks clearly of this outcome."


def test_a_bottom_line_is_of_a_paper_on_the_people_and_the_intervention() -> None:
    answer = copy.deepcopy(ANSWERS["soy"])
    assert clinical_reading(answer, answer["anchors"], answer["why"]).heading == "Bottom line"
    answer["question"] = answer["question"].replace("Whey protein", "Acupuncture")
    anchors = {**answer["anchors"], "I": ["Acupuncture"]}
    reading = clinical_reading(answer, anchors, answer["why"])
    assert "Acupuncture" in answer["question"]
    assert reading.heading == "Nearest that the papers say", "no cited paper holds it"


def test_no_rule_says_what_the_answer_of_a_model_lacks() -> None:
    """The same answer, of which rules say that no paper holds what was asked."""
    answer = copy.deepcopy(ANSWERS["soy"]) | {"model": "a-model"}
    answer["sentences"] = [each | {"part": "answer"} for each in answer["sentences"]]
    anchors = {**answer["anchors"], "I": ["Acupuncture"]}
    reading = clinical_reading(answer, anchors, answer["why"])
    assert (reading.heading, reading.match, reading.stances) == ("Bottom line", (), ())
    assert not kinds(reading) & {"missing", "partly", "other", "conflict", "outcome", "harm"}
    assert not any(each.says for each in (*reading.bottom_line, *reading.findings))
    assert reading.certainty.sentence.startswith("The answer rests on"), "that is counted"
    assert [each.text for each in reading.bottom_line] == [answer["sentences"][0]["text"]]
    assert answer["answer"] in reading.text
