from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from srrag.config.compose import configure
from srrag.core.step import Place
from srrag.llm.completion import Rules
from srrag.storage.store import Store
from srrag.systems.biogen.reformulate import Reformulate, likely_words, written_out
from tests.conftest import run_build
from tests.engines import ToyModel
from tests.unit.expand.asking import HOSTILE, questions

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
