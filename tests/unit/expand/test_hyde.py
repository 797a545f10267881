from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.core.step import Place
from srrag.engine.call import Call
from srrag.engine.openai.engine import HttpEngine
from srrag.expand.hyde import NUM_PASSAGES, TEMPERATURE, HydePassage, WriteHyde, render
from srrag.expand.picot_anchors import FindAnchors
from srrag.llm.completion import read
from tests.endpoint import Endpoint, serve
from tests.unit.expand.asking import (
    HOSTILE,
    anchored,
    baseline_faults,
    by_rules,
    questions,
    scripted,
    through,
    with_reject,
)

QUESTION = "Do night splints reduce pain in adults with heel pain after 6 weeks?"
ANCHORS = {"P": ["adults with heel pain"], "I": ["night splints"], "T": ["6 weeks"]}
CLEAN = ["Night splints were worn."] * 5
RULED = WriteHyde(by_rules=True)


def passage(*extra: str) -> str:
    return json.dumps({"sentences": [*CLEAN, *extra]})


@pytest.mark.parametrize(("count", "fits"), [(4, False), (5, True), (8, True), (9, False)])
def test_a_passage_has_5_to_8_sentences(count: int, fits: bool) -> None:
    answer = read(json.dumps({"sentences": ["Pain fell."] * count}), HydePassage)
    assert (answer.fault is None) == fits
    if fits:
        assert answer.value.text() == " ".join(["Pain fell."] * count)


def test_three_passages_at_the_temperature_of_table_s3() -> None:
    assert (NUM_PASSAGES, TEMPERATURE) == (3, 0.3)
    step = WriteHyde(engine=HttpEngine(model="m"))
    prompts = step.prompts(anchored(QUESTION, **ANCHORS))
    assert [(p.draw, p.temperature) for p in prompts] == [(0, 0.3), (1, 0.3), (2, 0.3)]
    assert len({p.slot for p in prompts}) == 3
    assert len({p.user for p in prompts}) == 1


def test_missing_anchors_are_shown_as_missing() -> None:
    _, user = render("Do splints help?", {"I": ["splints"], "x": ["never shown"]})
    assert user.endswith('Anchors: {"P": [], "I": ["splints"], "C": [], "O": [], "T": []}')


def test_draws_of_an_endpoint_differ(tmp_path: Path) -> None:
    with serve(Endpoint()) as endpoint:
        engine = HttpEngine(model="m", base_url=endpoint.url)
        (row,), usage = through(WriteHyde(), anchored(QUESTION, **ANCHORS), tmp_path, engine)
        assert len({request["seed"] for request in endpoint.requests[:3]}) == 3
    assert usage.calls >= 3
    assert 1 < len(row["hyde_passages"]) <= 3


def test_drift_is_asked_for_again_then_kept_and_named(tmp_path: Path) -> None:
    shown = []

    def script(call: Call) -> str:
        shown.append(call.prompt.turns)
        drift = f"Elderly women with diabetes improved by {40 + call.prompt.draw} points."
        return passage() if call.prompt.draw == 1 else passage(drift)

    (row,), usage = scripted(WriteHyde(), anchored(QUESTION, **ANCHORS), tmp_path, script)
    assert len(row["hyde_passages"]) == 3
    assert [each[:12] for each in row["hyde_violations"]] == [
        "1: number 40", "1: populatio", "3: number 42", "3: populatio",
    ]  # fmt: skip
    assert usage.faults == {"drift": 4}
    assert "number 40" in shown[3][0][1] or "number 42" in shown[3][0][1]
    assert row["reject"] is None


def test_a_second_answer_that_keeps_to_the_question_counts(tmp_path: Path) -> None:
    def script(call: Call) -> str:
        return passage(f"Draw {call.prompt.draw} fell." if call.attempt == 0 else "Pain fell.")

    step = WriteHyde(num_passages=2)
    (row,), _ = scripted(step, anchored(QUESTION, **ANCHORS), tmp_path, script)
    assert row["hyde_passages"] == [" ".join([*CLEAN, "Pain fell."])]
    assert row["hyde_violations"] == []


def test_numbers_of_the_question_are_its_own(tmp_path: Path) -> None:
    table = anchored(QUESTION, **ANCHORS)
    (row,), usage = scripted(
        WriteHyde(), table, tmp_path, lambda call: passage("At 6 weeks adults had less pain.")
    )
    assert (row["hyde_violations"], usage.calls) == ([], 3)


def test_one_passage_may_fail_but_not_all(tmp_path: Path) -> None:
    def script(call: Call) -> str:
        lost = call.prompt.draw == 0 or "Why" in call.prompt.user
        return "Sorry, I cannot help." if lost else passage(f"See {'x' * call.prompt.draw}.")

    good, _ = scripted(WriteHyde(), anchored(QUESTION, **ANCHORS), tmp_path, script)
    assert len(good[0]["hyde_passages"]) == 2
    assert good[0]["reject"] is None
    bad, _ = scripted(WriteHyde(), anchored("Why so?"), tmp_path, script)
    assert bad[0]["hyde_passages"] == []
    assert (bad[0]["reject"]["stage"], bad[0]["reject"]["reason"]) == ("hyde", "refusal")


def test_rules_write_none_unless_asked_to() -> None:
    table = anchored(QUESTION, **ANCHORS)
    assert WriteHyde().prompts(table) == []
    (row,) = by_rules(WriteHyde(), table)
    assert (row["hyde_passages"], row["hyde_violations"], row["reject"]) == ([], [], None)


def test_rules_fill_anchors_in_and_nothing_else() -> None:
    (row,) = by_rules(RULED, anchored(QUESTION, **ANCHORS))
    assert row["hyde_passages"] == [
        "The evidence concerns adults with heel pain. The management of interest is night splints."
        " Where there is a comparison, its results are described. Clinically relevant outcomes are"
        " reported. The time considered is 6 weeks."
    ]
    assert row["hyde_violations"] == []
    assert by_rules(RULED, anchored(QUESTION))[0]["hyde_passages"] == []


def test_rules_take_as_many_anchors_as_a_sentence_holds() -> None:
    long = ["a" * 160, "b" * 160, "c" * 80]
    (row,) = by_rules(RULED, anchored("Why?", I=long))
    assert "a" * 160 + " and " + "c" * 80 + "." in row["hyde_passages"][0]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_rules_survive_any_question(text: str) -> None:
    table = FindAnchors().open(Place())(questions(text))
    assert baseline_faults(RULED, table) == []
    (row,) = by_rules(RULED, table)
    assert (row["reject"], row["hyde_violations"]) == (None, [])


def test_what_was_rejected_before_is_not_asked() -> None:
    table = with_reject(anchored(QUESTION, **ANCHORS))
    assert RULED.prompts(table) == []
    assert by_rules(RULED, table)[0]["reject"]["stage"] == "before"


@pytest.mark.parametrize("fields", [{"num_passages": 0}, {"num_passages": 17}, {"temperature": -1}])
def test_settings_that_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        WriteHyde(**fields)
