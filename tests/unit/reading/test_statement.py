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
        ("Strength was higher after rest than after taping.", "strength", "decreased"),
        ("Pain was worse after rest than after taping.", "pain", "decreased"),
        ("Taping raised strength: increased strength, but decreased pain.", "pain", "decreased"),
        ("Pain decreased by more than 12 points with taping.", "pain", "decreased"),
        ("Pain decreased in both groups.", "pain", "unclear"),
        ("Strength was higher in the placebo group.", "strength", "decreased"),
        ("Pain was higher in controls.", "pain", "decreased"),
        ("Pain was higher in the controls.", "pain", "decreased"),
        ("Pain was higher with usual care (p < 0.001).", "pain", "decreased"),
        ("Untreated patients had higher pain scores.", "pain", "decreased"),
        ("The control group had higher pain scores.", "pain", "decreased"),
        ("A brace together with usual care raised pain.", "pain", "increased"),
        ("The programme in combination with usual care reduced pain.", "pain", "decreased"),
        ("Pain was lower when the drug was added on standard care.", "pain", "decreased"),
        ("Pain was lower on standard care in those also given it.", "pain", "decreased"),
        ("Compared with taping, rest raised pain.", "pain", "decreased"),
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
    ("sentence", "outcome", "direction", "worth"),
    [
        ("Survival was longer with taping.", "mortality", "decreased", "better"),
        ("Survival was shorter with taping.", "death", "increased", "worse"),
        ("Life expectancy was longer with taping.", "mortality", "decreased", "better"),
        ("More patients were alive after taping.", "mortality", "decreased", "better"),
        ("Mortality was lower with taping.", "survival", "increased", "better"),
        ("Taping improved survival.", "mortality", "decreased", "better"),
        ("Mortality was lower and survival longer.", "mortality", "decreased", "better"),
        ("Survival was longer and mortality lower.", "survival", "increased", "better"),
        ("Relapse-free survival was longer with taping.", "relapse", "decreased", "better"),
        ("Fewer patients had a relapse.", "relapse-free survival", "increased", "better"),
        ("Relapse-free survival rose with taping.", "relapse-free survival", "increased", "better"),
        ("Pain-free days were increased with taping.", "pain", "decreased", "better"),
        ("More patients were pain free at a week.", "pain", "decreased", "better"),
        ("A greater proportion of patients with no pain.", "pain", "decreased", "better"),
        ("More patients were free of pain with taping.", "pain", "decreased", "better"),
        ("Time to death was shorter with taping.", "mortality", "increased", "worse"),
        ("Time to first relapse was longer with taping.", "relapse", "decreased", "better"),
        ("Time to recovery was shorter with taping.", "recovery", "increased", "better"),
        ("Recovery was faster with taping.", "time to recovery", "decreased", "better"),
        ("Recovery came earlier with taping.", "time to recovery", "decreased", "better"),
        ("Relapses came later with taping.", "time to relapse", "increased", "better"),
        ("Recovery time was shorter with taping.", "time to recovery", "decreased", "better"),
        ("Taping reduced the time to symptom resolution.", "symptoms", "decreased", "better"),
        ("Time to depression remission was shorter.", "depression", "decreased", "better"),
        ("Taping reduced the time until diarrhoea stopped.", "diarrhoea", "decreased", "unclear"),
        ("Time to drug failure was longer.", "time to drug failure", "increased", "better"),
        ("Time to death was longer.", "survival time", "increased", "better"),
        ("A gluten-free diet reduced antibodies.", "gluten antibodies", "decreased", "unclear"),
        ("Bleeding time was longer with taping.", "bleeding", "increased", "worse"),
        ("Survivors had less pain.", "pain", "decreased", "better"),
        ("Survival did not differ.", "mortality", "no difference", "no difference"),
        ("Pain was worse with a brace than without a brace.", "pain", "increased", "worse"),
        ("Fat-free mass was higher.", "fat-free mass", "increased", "better"),
        ("Taping reduced free glucose.", "free glucose", "decreased", "unclear"),
    ],
)
def test_those_spared_an_event_are_fewer_events(
    sentence: str, outcome: str, direction: str, worth: str
) -> None:
    said = read_statement(sentence, outcome)
    assert (said.direction, said.better_or_worse) == (direction, worth)


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
        ("Training gave less improvement.", ["worse"]),
        ("Training prevented the loss of strength.", ["up"]),
        ("Outcomes were not similar.", []),
        ("Patients were enrolled in May.", []),
    ],
)
def test_effects_are_composed_and_negated(text: str, effects: list[str]) -> None:
    assert [cue.effect for cue in cues(text)] == effects
    assert tells_effect(text) == bool(effects)


def test_three_of_four_experts_labels_are_read_of_articles_held_out(shared_data: Path) -> None:
    """Of the half of the articles that were not looked at; the commonest label has .466."""
    labels = {
        "significantly increased": "increased",
        "significantly decreased": "decreased",
        "no significant difference": "no difference",
    }
    file = shared_data / "evidence_inference" / "prompts.jsonl"
    right = []
    for row in map(json.loads, file.read_text("utf-8").splitlines()):
        half = int(sha256(f"reader{row['article_id']}".encode()).hexdigest(), 16) % 2
        if row["label"] and row["evidence"] and half == 1:
            sentence = max((each["text"] for each in row["evidence"]), key=len)
            asked = (row["outcome"], row["intervention"], row["comparator"])
            right.append(read_statement(sentence, *asked).direction == labels[row["label"]])
    assert len(right) == 395
    assert sum(right) / len(right) >= 0.76
