from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srrag.config.compose import configure
from srrag.core.step import Place
from srrag.llm.completion import Rules
from srrag.llm.read_answer import read
from srrag.storage.store import Store
from srrag.systems.biogen.reformulate import Reformulate, Reformulations, likely_words, written_out
from tests.conftest import run_build
from tests.engines import ToyModel
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


PAPERS = [
    "Amyotrophic lateral sclerosis (ALS) is treated with riluzole in most patients.",
    "Riluzole slows sclerosis in patients by its effect on glutamate.",
    "Taping of the ankle is common in patients who play football.",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A build of three documents."""
    folder = tmp_path_factory.mktemp("reword")
    (folder / "corpus").mkdir()
    for n, text in enumerate(PAPERS):
        (folder / "corpus" / f"{n}.md").write_text(f"# Report {n}\n\n{text}\n")
    overrides = ["corpus=folder", f"corpus.path={folder / 'corpus'}", f"root={folder / 'root'}"]
    run_build(configure("build", [*overrides, "stages.vectors=null", "stages.extracts=null"]))
    return Place(artifacts=Store(folder / "root").artifacts("default"))


def reworded(place: Place, *texts: str) -> list[dict[str, Any]]:
    step = Reformulate(by_rules=True)
    assert not step.off
    found: list[dict[str, Any]] = step.open(place)(questions(*texts)).to_pylist()
    return found


def test_three_versions_of_the_corpus(place: Place) -> None:
    (row,) = reworded(place, "Which drug slows ALS in patients?")
    clinical, patient, aspect = row["reformulations"]
    assert clinical == "Which drug slows Amyotrophic lateral sclerosis (ALS) in patients?"
    assert set(patient.split()) < {"drug", "slows", "ALS", "patients"}
    assert "patients" not in patient.split()  # the commonest word
    assert aspect.startswith("Which drug slows ALS in patients? ")
    assert "riluzole" in aspect.casefold()
    assert row["reformulation_model"] == "rules"


def test_a_question_that_no_window_knows(place: Place) -> None:
    (row,) = reworded(place, "Quarks?")
    assert (row["reformulations"], row["reject"]) == ([], None)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_question_has_at_most_three_distinct_versions(place: Place, text: str) -> None:
    (row,) = reworded(place, text)
    versions = [" ".join(each.casefold().split()) for each in row["reformulations"]]
    assert len(set(versions)) == len(versions) <= 3
    assert " ".join(text.casefold().split()) not in versions


def test_a_model_needs_no_index() -> None:
    assert Reformulate(by_rules=True, engine=ToyModel()).needs() == ()
    assert Reformulate(by_rules=True).needs() == ("sparse", "units", "abbreviations")
    assert Reformulate().needs() == ()
    assert isinstance(Reformulate().engine, Rules)


def test_an_abbreviation_is_written_out_once_and_not_where_it_is() -> None:
    known = {"ALS": "amyotrophic lateral sclerosis"}
    assert written_out("Is ALS like ALS?", known) == (
        "Is amyotrophic lateral sclerosis (ALS) like ALS?"
    )
    same = "Is amyotrophic lateral sclerosis (ALS) rare?"
    assert written_out(same, known) == same
    assert written_out("Is als rare?", known) == "Is als rare?"


def test_likely_words_by_hand() -> None:
    """The first text has three quarters of the scores; "zinc" is asked for."""
    texts = ["zinc cures colds", "colds and nausea last"]
    found = likely_words(texts, np.array([3.0, 1.0]), "Does zinc help?")
    assert found == {
        "cures": pytest.approx(0.25),
        "colds": pytest.approx(0.25 + 0.25 / 3),
        "nausea": pytest.approx(0.25 / 3),
        "last": pytest.approx(0.25 / 3),
    }
