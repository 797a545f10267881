from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.llm.read_answer import read
from srrag.systems.biogen.reformulate import Reformulate, Reformulations
from tests.unit.expand.asking import (
    HOSTILE,
    baseline_faults,
    by_rules,
    questions,
    scripted,
    with_reject,
)

QUESTION = "Does taping help after 6 weeks?"


def asked(tmp_path: Path, *versions: str) -> tuple[dict[str, Any], Any]:
    text = json.dumps(dict(zip(("clinical", "patient", "aspect"), versions, strict=True)))
    table = questions(QUESTION)
    (row,), usage = scripted(Reformulate(), table, tmp_path, lambda call: text)
    return row, usage


def test_exactly_three_versions() -> None:
    good = '{"clinical": "A?", "patient": "B?", "aspect": "C?"}'
    assert read(good, Reformulations).value.distinct("Q?") == ["A?", "B?", "C?"]
    for bad in ('{"clinical": "A?", "patient": "B?"}', good.replace("B?", " ")):
        assert read(bad, Reformulations).fault is not None


def test_repetitions_are_left_out() -> None:
    versions = Reformulations(clinical="A?", patient=" q? ", aspect="a?")
    assert versions.distinct("Q?") == ["A?"]
    part = Reformulations(clinical="Does it help?", patient="B?", aspect="A?")
    assert part.distinct("When ill, does it  help?") == ["B?", "A?"]


@pytest.mark.parametrize("context", [False, True])
def test_the_context_is_shown_on_demand(context: bool) -> None:
    table = questions(QUESTION, topic="heels", narrative="A runner of 45.")
    (prompt,) = Reformulate(context=context).prompts(table)
    assert ("heels" in prompt.user) == ("runner of 45" in prompt.user) == context


def test_versions_are_kept_in_order(tmp_path: Path) -> None:
    row, usage = asked(tmp_path, "Is taping effective?", QUESTION, "Does tape heal by 6 weeks?")
    assert row["reformulations"] == ["Is taping effective?", "Does tape heal by 6 weeks?"]
    assert (row["reject"], usage.calls) == (None, 1)


def test_a_number_in_other_words_is_no_fault(tmp_path: Path) -> None:
    versions = ("Is taping good at six weeks?", "Does tape help in 42 days?", "Is tape safe?")
    row, usage = asked(tmp_path, *versions)
    assert (row["reformulations"], usage.faults) == (list(versions), {})


def test_a_fault_rejects_its_row(tmp_path: Path) -> None:
    (row,), _ = scripted(Reformulate(), questions(QUESTION), tmp_path, lambda call: "{}")
    assert (row["reject"]["stage"], row["reject"]["reason"]) == ("reformulate", "wrong_type")
    assert row["reformulations"] == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_rules_reword_nothing(text: str) -> None:
    table = questions(text)
    (row,) = by_rules(Reformulate(), table)
    assert (row["reformulations"], row["reject"]) == ([], None)
    assert baseline_faults(Reformulate(), table) == []


def test_what_was_rejected_before_is_not_asked() -> None:
    table = with_reject(questions(QUESTION))
    assert Reformulate().prompts(table) == []
    assert by_rules(Reformulate(), table)[0]["reject"]["stage"] == "before"
