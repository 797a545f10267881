"""Which names are shown to people, and which are one concept."""

from __future__ import annotations

import pyarrow as pa
import pytest

from srrag.serve.concepts_shown import Spelling, columns_of, passes

GOOD = [
    "knee osteoarthritis", "type 2 diabetes", "COVID-19", "children aged 5-14 years",
    "quality of life", "high-intensity interval training (HIT)", "Parkinson's disease",
    "25-hydroxyvitamin D", "adverse events", "age-related macular degeneration", "placebo",
    "Roland-Morris Disability Scale", "group exercise classes",
]  # fmt: skip
BAD = [
    "Abstract", "efficacy", "However", "mild, moderate", "Group Ropivacaine", "placebo group",
    "twice a week", "52 healthy children (4-16 years", "October 1st, 666 patients",
    "sham tDCS+exercise (ST+EX) twice weekly", "progressed exercise that", "of pain",
    "Prevalences of moderate effects were", "intolerance to therapy.AREAS COVERED", "six weeks",
    "ramipril 10mg", "pain at", "13 (26%) in the tranexamic acid", "age", "pain; stiffness",
    "a name that has far too many words to be one of a vocabulary",
]  # fmt: skip


@pytest.mark.parametrize(("names", "wanted"), [(GOOD, True), (BAD, False)])
def test_the_bar_tells_names_from_halves_of_sentences(names: list[str], wanted: bool) -> None:
    told = dict(zip(names, passes(pa.array(names)).tolist(), strict=True))
    assert told == dict.fromkeys(names, wanted)


def test_an_illness_stands_among_populations_whatever_it_was_read_as() -> None:
    types = pa.chunked_array([["Outcome", "Intervention", "Outcome", "Timepoint", "Population"]])
    names = pa.chunked_array(
        [["spinal muscular atrophy (SMA)", "Friedreich's ataxia", "pain", "a disease", "men"]]
    )
    assert columns_of(types, names).tolist() == [0, 0, 2, -1, 0]


def test_spellings_of_a_concept_share_a_key() -> None:
    spelling = Spelling({"OA": "osteoarthritis", "CBT": "cognitive behavioural therapy",
                         "ACT": "and Commitment Therapy"})  # fmt: skip
    same = ["knee osteoarthritis", "knee OA", "osteoarthritis of the knee", "Patients with knee OA"]
    assert len({spelling.key(name, 0) for name in same}) == 1
    assert spelling.key("patients with pain", 2) != spelling.key("pain", 2), "of people alone"
    assert spelling.key("exercise (Ex)", 1) == spelling.key("exercise", 1)
    assert spelling.key("high dose", 1) != spelling.key("low dose", 1)
    assert spelling.knows("CBT") and not spelling.knows("XYZ") and not spelling.knows("ACT")
    assert spelling.shown(["CBT"]) == ("cognitive behavioural therapy (CBT)", [])
    assert spelling.shown(["CBT", "Therapy", "cbt"]) == ("Therapy", ["CBT"])
