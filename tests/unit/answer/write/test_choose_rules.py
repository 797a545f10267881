from __future__ import annotations

import json
from pathlib import Path

import pytest

from srrag.answer.select.candidates import Passage
from srrag.answer.write.choose_rules import Chosen, choose, directions, parts
from srrag.core.schema import NO_CHOICE
from srrag.lab.datasets.shape import LABELS

QUESTION = "What is the effect of loading, compared with rest, on tendon pain?"


def passage(text: str, title: str = "Trial", section: str = "Results") -> Passage:
    return Passage(text, title, section, "C")


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("Tendon pain was higher after loading than after rest at one year.", 0),
        ("Tendon pain was lower after loading than after rest at one year.", 1),
        ("Tendon pain did not differ between loading and rest at one year.", 2),
        ("Tendon pain was lower after rest than after loading at one year.", 0),
        ("Tendon pain was measured on a scale of ten points by two nurses.", NO_CHOICE),
    ],
)
def test_the_direction_of_the_outcome_is_chosen(text: str, option: int) -> None:
    assert choose(QUESTION, LABELS, [passage(text)]).option == option


def test_the_sentence_on_the_outcome_decides_and_is_cited() -> None:
    other = passage("Tendon pain was higher after loading than after rest.", "Another trial")
    first = passage("Costs were lower with loading. Tendon pain did not differ between groups.")
    chosen = choose(QUESTION, LABELS, [first, other])
    assert chosen == Chosen(2, "Tendon pain did not differ between groups.", (1,))


def test_options_are_read_as_directions_only_if_each_names_another() -> None:
    assert directions(LABELS) == ["increased", "decreased", "no difference"]
    assert directions(["It rose", "It fell", "It stayed the same"]) == [
        "increased", "decreased", "no difference",
    ]  # fmt: skip
    assert directions(["higher dose", "greater dose"]) == []
    assert directions(["increase", "decrease", "aspirin"]) == []
    assert directions(["lower then higher", "lower"]) == []


def test_the_parts_of_a_question() -> None:
    assert tuple(parts(QUESTION)) == ("loading", "rest", "tendon pain")
    assert parts("Does loading reduce tendon pain?").outcome == "tendon pain"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("Loading relieves tendon pain in most adults.", 0),
        ("Loading does not relieve tendon pain in most adults.", 1),
    ],
)
def test_yes_or_no_is_the_stance_of_the_quotes(text: str, option: int) -> None:
    question = "Does loading relieve tendon pain?"
    chosen = choose(question, ["Yes", "no"], [passage(text, section="Conclusions")])
    assert (chosen.option, chosen.cites) == (option, (1,))


def test_other_options_are_chosen_by_their_own_words() -> None:
    evidence = [passage("Cisplatin cross-links strands of DNA."), passage("Taxanes bind tubulin.")]
    question = "How does cisplatin act on a tumour?"
    chosen = choose(question, ["binding of tubulin", "cross-linking of DNA"], evidence)
    assert (chosen.option, chosen.cites) == (1, (1,))
    same = ["cross-linking of DNA", " Cross-linking of DNA", "heat"]
    assert choose(question, same, evidence).option == 0, "equal options are one"


def test_what_cannot_be_read_is_left_open() -> None:
    evidence = [passage("Walking is healthy for most adults.")]
    for options in (["aspirin", "heparin"], ["A", "B"], ["walking shoes", "walking sticks"], [""]):
        assert choose("Which drug thins blood?", options, evidence).option == NO_CHOICE
    assert choose(QUESTION, LABELS, []).option == NO_CHOICE
    assert choose(QUESTION, ["yes", "no"], []).option == NO_CHOICE


def test_gold_evidence_tells_the_direction(shared_data: Path) -> None:
    """On the experts' own evidence three of four labels are read; the majority has .483."""
    folder = shared_data / "evidence_inference"
    prompts = map(json.loads, (folder / "prompts.jsonl").read_text("utf-8").splitlines())
    right = []
    for row in (each for each in prompts if each["label"]):
        question = "What is the effect of {intervention}, compared with {comparator}, on {outcome}?"
        text = " ".join(each["text"] for each in row["evidence"])
        option = choose(question.format_map(row), LABELS, [passage(text)]).option
        right.append(option != NO_CHOICE and LABELS[option] == row["label"])
    assert len(right) == 864
    assert sum(right) / len(right) >= 0.75
