"""Which way sentences say that an outcome went."""

from __future__ import annotations

import csv
import json
from hashlib import sha256
from pathlib import Path

import pytest

from srrag.reading.statement import cues, polarity, read_statement, tells_effect

TABLE = Path(__file__).with_name("statements.tsv").read_text("utf-8").splitlines()
ROWS = list(csv.DictReader(TABLE, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_the_table_holds_good_and_bad_outcomes_each_way() -> None:
    kinds = {(row["direction"], row["better_or_worse"]) for row in ROWS}
    ways = {(way, worth) for way in ("increased", "decreased") for worth in ("better", "worse")}
    assert len(ROWS) >= 80
    assert ways | {("no difference", "no difference"), ("unclear", "unclear")} < kinds


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["sentence"])
def test_a_sentence_tells_the_direction_of_an_outcome_and_its_worth(row: dict[str, str]) -> None:
    said = read_statement(row["sentence"], row["outcome"])
    assert (said.direction, said.better_or_worse) == (row["direction"], row["better_or_worse"])


@pytest.mark.parametrize(
    ("sentence", "outcome", "direction"),
    [
        ("Strength was higher after taping than after rest.", "strength", "increased"),
        ("Strength was higher after rest than after taping.", "strength", "unclear"),
        ("Pain was worse after rest than after taping.", "pain", "unclear"),
        ("Taping raised strength: increased strength, but decreased pain.", "pain", "decreased"),
        ("Pain decreased by more than 12 points with taping.", "pain", "decreased"),
        ("Pain decreased in both groups.", "pain", "unclear"),
        ("Strength was higher in the placebo group.", "strength", "unclear"),
        ("Pain was higher in controls.", "pain", "unclear"),
        ("Pain was higher in the controls.", "pain", "unclear"),
        ("Pain was higher with usual care (p < 0.001).", "pain", "unclear"),
        ("Untreated patients had higher pain scores.", "pain", "unclear"),
        ("The control group had higher pain scores.", "pain", "unclear"),
        ("A brace together with usual care raised pain.", "pain", "increased"),
        ("The programme in combination with usual care reduced pain.", "pain", "unclear"),
        ("Pain was lower when the drug was added on standard care.", "pain", "unclear"),
        ("Pain was lower on standard care in those also given it.", "pain", "unclear"),
        ("Compared with taping, rest raised pain.", "pain", "unclear"),
        ("When compared with rest, taping raised pain.", "pain", "increased"),
        ("Compared with controls, pain was higher.", "pain", "increased"),
        ("Treatment was superior for control of pain.", "pain", "decreased"),
        ("Withdrawal of taping raised pain.", "pain", "unclear"),
        ("Stopping the taping raised pain.", "pain", "unclear"),
        ("Taping discontinuation raised pain.", "pain", "unclear"),
        ("Low adherence to taping raised pain.", "pain", "unclear"),
        ("Without taping, pain was higher.", "pain", "unclear"),
        ("Failure to give taping raised pain.", "pain", "unclear"),
        ("Pain was lower with taping than without taping.", "pain", "decreased"),
        ("At 12 weeks, compared with rest, taping reduced pain.", "pain", "decreased"),
        ("We found that taping did not reduce pain compared with rest.", "pain", "no difference"),
        ("Pain was higher in arms that did not get it.", "pain", "unclear"),
        ("Taping raised the rate of discontinuation.", "discontinuation", "increased"),
    ],
)
def test_a_comparison_is_read_from_the_side_of_the_intervention(
    sentence: str, outcome: str, direction: str
) -> None:
    assert read_statement(sentence, outcome, "taping", "rest").direction == direction


def test_who_asks_about_stopping_a_treatment_gets_what_stopping_it_did() -> None:
    said = read_statement("Aspirin withdrawal raised mortality.", "mortality", "aspirin withdrawal")
    assert said.direction == "increased"


@pytest.mark.parametrize(
    ("sentence", "outcome", "direction"),
    [
        ("Relapse-free survival rose with taping.", "relapse-free survival", "increased"),
        ("Time to drug failure was longer.", "time to drug failure", "increased"),
        ("Time to death was longer.", "survival time", "increased"),
        ("Bleeding time was longer with taping.", "bleeding", "increased"),
        ("Recovery time was shorter with taping.", "time to recovery", "decreased"),
        ("Pain was worse with a brace than without a brace.", "pain", "increased"),
        ("Fat-free mass was higher.", "fat-free mass", "increased"),
    ],
)
def test_an_outcome_that_is_a_time_or_those_spared_is_read_by_its_own_name(
    sentence: str, outcome: str, direction: str
) -> None:
    assert read_statement(sentence, outcome).direction == direction


@pytest.mark.parametrize(
    ("sentence", "outcome", "intervention", "comparator"),
    [
        ("sentence", "outcome", "", ""),
        ("Survival was longer with taping.", "mortality", "", ""),
        ("Survival was shorter with taping.", "death", "", ""),
        ("Life expectancy was longer with taping.", "mortality", "", ""),
        ("More patients were alive after taping.", "mortality", "", ""),
        ("Mortality was lower with taping.", "survival", "", ""),
        ("Taping improved survival.", "mortality", "", ""),
        ("Mortality was lower and survival longer.", "mortality", "", ""),
        ("Survival was longer and mortality lower.", "survival", "", ""),
        ("Relapse-free survival was longer with taping.", "relapse", "", ""),
        ("Fewer patients had a relapse.", "relapse-free survival", "", ""),
        ("Pain-free days were increased with taping.", "pain", "", ""),
        ("More patients were pain free at a week.", "pain", "", ""),
        ("A greater proportion of patients with no pain.", "pain", "", ""),
        ("More patients were free of pain with taping.", "pain", "", ""),
        ("Time to death was shorter with taping.", "mortality", "", ""),
        ("Time to first relapse was longer with taping.", "relapse", "", ""),
        ("Time to recovery was shorter with taping.", "recovery", "", ""),
        ("Recovery was faster with taping.", "time to recovery", "", ""),
        ("Recovery came earlier with taping.", "time to recovery", "", ""),
        ("Relapses came later with taping.", "time to relapse", "", ""),
        ("Taping reduced the time to symptom resolution.", "symptoms", "", ""),
        ("Time to depression remission was shorter.", "depression", "", ""),
        ("Taping reduced the time until diarrhoea stopped.", "diarrhoea", "", ""),
        ("A gluten-free diet reduced antibodies.", "gluten antibodies", "", ""),
        ("Survivors had less pain.", "pain", "", ""),
        ("Survival did not differ.", "mortality", "", ""),
        ("Taping reduced free glucose.", "free glucose", "", ""),
        (
            "Tranexamic acid significantly reduced blood loss and mortality.",
            "mortality",
            "tranexamic acid",
            "placebo",
        ),
        (
            "Prednisolone reduced swelling, stiffness and pain significantly more than placebo.",
            "pain",
            "prednisolone",
            "placebo",
        ),
        (
            "The decline in lung function was significantly slower with taping.",
            "lung function",
            "taping",
            "",
        ),
        (
            "The rate of decline in FEV1 was significantly reduced with taping.",
            "FEV1",
            "taping",
            "",
        ),
        (
            "Mortality was significantly higher in patients not treated with aspirin.",
            "mortality",
            "aspirin",
            "placebo",
        ),
        (
            "Patients not receiving statins had significantly higher mortality.",
            "mortality",
            "statins",
            "",
        ),
        ("Low adherence to taping raised pain.", "pain", "taping", "rest"),
        ("Avoiding drains significantly reduced infection.", "infection", "drains", ""),
        ("The results for pain significantly favoured placebo.", "pain", "taping", "placebo"),
        (
            "Usual care alone resulted in significantly more pain than taping plus usual care.",
            "pain",
            "taping plus usual care",
            "usual care",
        ),
        (
            "Zinc significantly reduced colds, but vitamin C did not.",
            "colds",
            "vitamin C",
            "placebo",
        ),
        ("Exercise significantly increased the pressure pain threshold.", "pain", "exercise", ""),
        (
            "Overall survival was significantly longer with taping (hazard ratio for death, 0.75).",
            "death",
            "taping",
            "rest",
        ),
        (
            "Taping gave fewer infections and no increase in mortality.",
            "infections",
            "taping",
            "rest",
        ),
        (
            "Early feeding did not increase leaks and significantly shortened hospital stay.",
            "hospital stay",
            "early feeding",
            "control",
        ),
        ("Taping was less effective than rest for pain.", "pain", "taping", "rest"),
        ("Pain decreased significantly in both groups (p<0.001).", "pain", "", "control"),
        ("Fractures increased significantly after discontinuation.", "fractures", "", "control"),
        ("Wounds healed significantly faster with honey.", "healing time", "honey", ""),
        ("Steroids significantly slowed healing.", "healing time", "steroids", ""),
        ("Healing time was significantly shorter with taping.", "healing", "taping", ""),
        (
            "Patients who did not undergo surgery had significantly higher mortality.",
            "mortality",
            "surgery",
            "",
        ),
        (
            "Taping reduced pain significantly; no differences in function were found.",
            "pain",
            "taping",
            "",
        ),
        ("The reduction in pain was smaller with taping.", "pain", "taping", "rest"),
        ("Taping prevented the loss of strength.", "strength", "taping", "rest"),
    ],
)
def test_what_is_told_in_a_roundabout_way_is_left_unread(
    sentence: str, outcome: str, intervention: str, comparator: str
) -> None:
    said = read_statement(sentence, outcome, intervention, comparator)
    assert (said.direction, said.clear) == ("unclear", False)


def test_a_treatment_may_be_named_slow() -> None:
    said = read_statement("Slow breathing reduced pain.", "pain", "slow breathing", "rest")
    assert said.direction == "decreased"


def test_what_both_groups_do_is_no_effect_of_an_intervention_without_a_comparator() -> None:
    said = read_statement("Both groups had improved significantly in pain.", "pain", "taping")
    assert (said.direction, said.clear) == ("unclear", False)
    alone = read_statement("Both groups had improved significantly in pain.", "pain")
    assert alone.better_or_worse == "better", "no comparison is asked for"


@pytest.mark.parametrize(
    ("sentence", "clear"),
    [
        ("Pain was significantly lower with taping.", True),
        ("Pain was lower with taping (p = 0.03).", True),
        ("Pain was lower with taping.", False),
        ("Pain was slightly lower with taping (p = 0.04).", False),
        ("There was a significant trend to lower pain with taping.", False),
        ("Pain was significantly lower with taping among women only.", False),
        ("Pain did not differ significantly.", True),
        ("Pain did not differ (p = 0.4), but function was significantly better.", False),
    ],
)
def test_a_statement_is_clear_if_it_says_one_thing_and_hedges_nothing(
    sentence: str, clear: bool
) -> None:
    assert read_statement(sentence, "pain").clear == clear


@pytest.mark.parametrize(
    ("outcome", "worth"),
    [
        ("pain", "bad"), ("pain threshold", "good"), ("loss of strength", "bad"),
        ("time to relapse", "good"), ("recovery time", "bad"), ("reduction in pain", "good"),
        ("time to first relapse", "good"), ("time to clinical recovery", "bad"), ("glucose", ""),
    ],
)  # fmt: skip
def test_the_worth_of_an_outcome_is_that_of_its_longest_name(outcome: str, worth: str) -> None:
    assert polarity(outcome) == worth


@pytest.mark.parametrize(
    ("text", "effects"),
    [
        ("Pain was reduced in the trained group.", ["down"]),
        ("Pain was not reduced in the trained group.", ["same"]),
        ("There was no significant difference in pain.", ["same", "same"]),
        ("Function improved and pain decreased.", ["better", "down"]),
        ("Training failed to improve function.", ["same"]),
        ("Pain did not change, but function improved.", ["same", "better"]),
        ("The reduction in pain was greater.", ["down"]),
        ("Outcomes were not similar.", []),
        ("Patients were enrolled in May.", []),
    ],
)
def test_effects_are_composed_and_negated(text: str, effects: list[str]) -> None:
    assert [cue.effect for cue in cues(text)] == effects
    assert tells_effect(text) == bool(effects)


def test_of_directions_that_are_told_clearly_few_are_wrong(shared_data: Path) -> None:
    """Labels of experts, of the half of the articles that were not looked at."""
    labels = {
        "significantly increased": "increased",
        "significantly decreased": "decreased",
        "no significant difference": "no difference",
    }
    file = shared_data / "evidence_inference" / "prompts.jsonl"
    told, clear = [], []
    for row in map(json.loads, file.read_text("utf-8").splitlines()):
        half = int(sha256(f"reader{row['article_id']}".encode()).hexdigest(), 16) % 2
        if row["label"] and row["evidence"] and half == 1:
            sentence = max((each["text"] for each in row["evidence"]), key=len)
            said = read_statement(sentence, row["outcome"], row["intervention"], row["comparator"])
            right = said.direction == labels[row["label"]]
            told += [right] if said.direction != "unclear" else []
            clear += [right] if said.clear else []
    assert sum(told) >= 180 and sum(clear) >= 155
    assert sum(told) / len(told) >= 0.9 and sum(clear) / len(clear) >= 0.96
