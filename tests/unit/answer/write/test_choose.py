from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.write.choose import NO_OPTIONS, ChooseOption, ChosenOption
from srrag.answer.write.cited import ABSTENTION
from srrag.core.schema import EVIDENCE, REJECT, sentence_row
from srrag.core.step import Place
from srrag.llm.completion import Completion, Fault, Rules, read
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
