"""Findings by rules, where no model has read the papers."""

from __future__ import annotations

import pytest

from srrag.synthesis.gather import stated
from srrag.synthesis.studies import NameMatcher, first_number
from tests.unit.synthesis.made import PARTS, paper, synthesis

NAMES = NameMatcher({}, {})
ASKED = PARTS | {"I": ["astemol"], "O": ["pain"]}
TEXT = (
    "Background: Astemol is said to reduce pain significantly (p < 0.01). "
    "Results: Pain was significantly lower with astemol than with control (p = 0.01). "
    "Conclusions: Astemol significantly reduces pain."
)


def test_results_are_found_conclusions_concluded_and_background_left_out() -> None:
    papers = [paper("one", text=TEXT)]
    rows = list(stated(papers, ASKED, NAMES))
    assert [(row["kind"], row["direction"]) for row in rows] == [
        ("found", "better"), ("concluded", "better"),
    ]  # fmt: skip
    (place,) = rows[0]["places"]
    assert TEXT[place["start"] : place["end"]] == rows[0]["quote"]
    (row,) = synthesis(rows, papers, ASKED).comparisons[0].comparison.rows
    assert row.counted == "better"


def test_a_plan_and_a_paper_on_other_treatments_tell_nothing() -> None:
    plan = "Patients will be randomised. Pain will be assessed. They will receive astemol."
    others = TEXT.replace("stemol", "spirin").replace("Aspirin", "Ice")
    papers = [paper("one", text=plan, title="A study protocol"), paper("two", text=others,
                                                                       title="Ice")]  # fmt: skip
    assert list(stated(papers, ASKED, NAMES)) == []


def test_what_both_groups_do_is_counted_for_neither() -> None:
    text = "Results: At 12 weeks both groups had improved significantly in pain (p < 0.01)."
    assert list(stated([paper("one", text=f"Astemol was given. {text}")], ASKED, NAMES)) == []


@pytest.mark.parametrize(
    ("told", "people"),
    [("Seven in ten patients", None), ("107 of 200 invited", 107), ("forty-five in all", 45),
     ("40 in each group", 40)],
)  # fmt: skip
def test_the_people_of_a_study_are_no_share(told: str, people: int | None) -> None:
    assert first_number(told) == people
