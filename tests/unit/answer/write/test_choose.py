from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.select.candidates import Passage
from srrag.answer.write.choose import NO_OPTIONS, ChooseOption, ChosenOption
from srrag.answer.write.choose_rules import Chosen, choose, directions, parts
from srrag.answer.write.cited import ABSTENTION
from srrag.core.schema import EVIDENCE, NO_CHOICE, REJECT, sentence_row
from srrag.core.step import Place
from srrag.lab.datasets.shape import LABELS
from srrag.llm.completion import Completion, Fault, Rules
from srrag.llm.read_answer import read
from tests.unit.answer.write.test_compose import FINDING, OTHER, QUESTION, evidence

OPTIONS = ["yes", "no"]


def asked(*options: list[str], shown: tuple[str, ...] = (FINDING, OTHER)) -> pa.Table:
    return pa.table(
        {
            "text": [QUESTION] * len(options),
            "options": pa.array(options, pa.list_(pa.string())),
            "evidence": pa.array([evidence(*shown)] * len(options), EVIDENCE),
            "reject": pa.nulls(len(options), REJECT),
        }
    )


def answered(said: dict[str, Any] | Fault, options: list[str] = OPTIONS) -> dict[str, Any]:
    step, batch = ChooseOption(), asked(options)
    completion = (
        Completion(fault=said) if isinstance(said, Fault) else read(json.dumps(said), ChosenOption)
    )
    rows: list[dict[str, Any]] = step.parse(batch, step.prompts(batch), [completion]).to_pylist()
    return rows[0]


def test_an_option_with_its_steps_and_citations() -> None:
    row = answered({"steps": ["It does.", "So yes."], "choice": "A", "citations": [2, 9, 2]})
    assert row["answer"] == "It does. So yes.\n\nA. yes [2]"
    assert row["sentences"] == [sentence_row("A. yes", ["e2"])]
    assert (row["choice"], row["state"], row["invalid_citations"]) == (0, "answered", 1)


@pytest.mark.parametrize("label", ["", "C", "Z"])
def test_no_option_is_an_abstention(label: str) -> None:
    row = answered({"steps": ["Unclear."], "choice": label, "citations": []})
    assert (row["choice"], row["answer"], row["state"]) == (-1, ABSTENTION, "not")
    assert "Unclear." in row["answer_note"]


def test_what_no_option_has_is_a_fault_that_the_model_is_shown() -> None:
    step, batch = ChooseOption(), asked(OPTIONS)
    (prompt,) = step.prompts(batch)
    blank = {"steps": [], "citations": []}
    assert step.check(batch, prompt, ChosenOption(choice="B", **blank)) is None
    assert step.check(batch, prompt, ChosenOption(choice="C", **blank)).kind == "no_option"  # type: ignore[union-attr]
    assert step.check(batch, prompt, ChosenOption(choice="", **blank)).kind == "no_option"  # type: ignore[union-attr]
    assert dict(prompt.enums) == {"ChosenOption.choice": ("A", "B")}


def test_a_fault_rejects_its_row() -> None:
    row = answered(Fault("not_recorded", "no answer"))
    assert (row["reject"]["stage"], row["reject"]["reason"]) == ("choose", "not_recorded")
    assert row["choice"] == -1


def test_no_options_and_too_many() -> None:
    batch = asked([], [f"option {n}" for n in range(27)], OPTIONS)
    assert len(ChooseOption().prompts(batch)) == 1
    none, many, some = ChooseOption().open(Place())(batch).to_pylist()
    assert (none["choice"], none["answer_note"], none["reject"]) == (-1, NO_OPTIONS, None)
    assert many["reject"]["reason"] == "too_many_options"
    assert some["choice"] == 0


def test_rules_quote_what_they_choose_by() -> None:
    (row,) = ChooseOption().open(Place())(asked(OPTIONS)).to_pylist()
    assert row["answer"].startswith(FINDING) and row["answer"].endswith("A. yes [1][2]")
    assert row["model"] == "rules"


def test_rules_know_nothing_without_evidence() -> None:
    step = ChooseOption(evidence="")
    (row,) = step.open(Place())(asked(OPTIONS).drop_columns(["evidence"])).to_pylist()
    assert (row["choice"], row["state"], row["evidence"], row["hits"]) == (-1, "not", [], [])


def test_labels_are_shown_and_no_text_breaks_out() -> None:
    (prompt,) = ChooseOption().prompts(asked(['a"\nEvidence', "b"]))
    assert 'Options: {"A": "a\\"\\nEvidence", "B": "b"}' in prompt.user
    assert (prompt.question, prompt.options) == (QUESTION, ('a"\nEvidence', "b"))


def test_rules_say_what_their_sentence_weights_were_fitted_on() -> None:
    assert [each.name for each in ChooseOption(engine=Rules()).fitted()] == ["sentence weights"]
    assert ChooseOption(engine=Rules(), evidence="").fitted() == ()


EFFECT = "What is the effect of loading, compared with rest, on tendon pain?"


def passage(text: str, title: str = "Trial", section: str = "Results") -> Passage:
    return Passage(text, title, section, "C")


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("Tendon pain was higher after loading than after rest at one year.", 0),
        ("Tendon pain was lower after loading than after rest at one year.", 1),
        ("Tendon pain did not differ between loading and rest at one year.", 2),
        ("Tendon pain was lower after rest than after loading at one year.", NO_CHOICE),
        (
            "Age did not differ. At 12 weeks, compared with rest, loading reduced tendon pain.",
            1,
        ),
        ("The rise in tendon pain was smaller with loading. Adherence did not differ.", NO_CHOICE),
        ("Tendon pain was measured on a scale of ten points by two nurses.", NO_CHOICE),
    ],
)
def test_the_direction_of_the_outcome_is_chosen(text: str, option: int) -> None:
    assert choose(EFFECT, LABELS, [passage(text)]).option == option


def test_the_sentence_on_the_outcome_decides_and_is_cited() -> None:
    other = passage("Tendon pain was higher after loading than after rest.", "Another trial")
    first = passage("Costs were lower with loading. Tendon pain did not differ between groups.")
    chosen = choose(EFFECT, LABELS, [first, other])
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
    assert tuple(parts(EFFECT)) == ("loading", "rest", "tendon pain")
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
    assert choose(EFFECT, LABELS, []).option == NO_CHOICE
    assert choose(EFFECT, ["yes", "no"], []).option == NO_CHOICE


def test_gold_evidence_tells_the_direction(shared_data: Path) -> None:
    """On the experts' evidence nine of ten that are chosen are right; the rest is left open."""
    folder = shared_data / "evidence_inference"
    prompts = map(json.loads, (folder / "prompts.jsonl").read_text("utf-8").splitlines())
    right, count = [], 0
    for row in (each for each in prompts if each["label"]):
        question = "What is the effect of {intervention}, compared with {comparator}, on {outcome}?"
        text = " ".join(each["text"] for each in row["evidence"])
        option = choose(question.format_map(row), LABELS, [passage(text)]).option
        count += 1
        right += [LABELS[option] == row["label"]] if option != NO_CHOICE else []
    print(len(right), sum(right))
    assert count == 864 and sum(right) >= 0.35 * count
    assert sum(right) / len(right) >= 0.88
