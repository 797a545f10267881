"""The last lines of a job say what stands, and what to type next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from jobs.serve import example, own_question
from srrag.config.run_job import closing
from srrag.core.units import Units
from srrag.serve.library_facts import library_facts
from srrag.storage.store import Store

REJECTS = {"parsed": {"broken_pdf": 2}, "triples": {"ungrounded": 5}}
BUILT = {
    "documents": 1200, "windows": 3000, "rejected": 2, "skipped_as_forgotten": 0,
    "rejects": {"parsed": REJECTS["parsed"]},
}  # fmt: skip


def test_a_build_ends_with_its_counts_and_the_next_command() -> None:
    said = closing("build", {"root": ".srrag"}, BUILT)
    assert said.startswith(".srrag: 1,200 documents, 3,000 windows, 2 rejected\nnext: srrag ask ")
    assert "root='a b'" in closing("build", {"root": "a b"}, BUILT)


def test_a_build_says_what_it_did_not_read_again() -> None:
    said = closing("build", {"root": "R"}, BUILT | {"skipped_as_forgotten": 3})
    assert "2 rejected, 3 not read as forgotten" in said


def test_a_model_that_claims_too_much_loses_no_document() -> None:
    said = closing("build", {"root": "R"}, BUILT | {"rejected": 7, "rejects": REJECTS})
    assert "2 rejected, 5 facts not taken from the model" in said


def test_a_server_shows_a_question_of_its_own_library(sample_root: Path) -> None:
    store = Store(sample_root)
    units = Units(store.artifacts("default")["units"])
    asked = own_question(store, "default")
    assert asked in library_facts(units, 0, "1").examples and "varenicline" not in asked


@pytest.mark.parametrize("keyed", [True, False])
def test_the_command_that_a_server_shows_can_be_typed(keyed: bool) -> None:
    asked = 'Does Crohn\'s "flare" end?'
    words = shlex.split(example("http://h:1", asked, keyed=keyed))
    assert words[:2] == ["curl", "http://h:1/v1/answers"]
    assert json.loads(words[-1])["question"] == asked
    assert ("authorization: Bearer KEY" in words) == keyed
