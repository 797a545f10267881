"""The findings of a root are gathered without work that its build has done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from srrag.config.factory import ontology
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.storage.store import Store
from srrag.synthesis import gather
from srrag.synthesis.gather import stated
from srrag.synthesis.studies import NameMatcher, first_number
from tests.findings_root import PREVENTS, with_findings
from tests.unit.synthesis.made import PARTS, paper, synthesis


def test_names_that_the_build_encoded_are_not_encoded_again(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    encode = load(Encoder()).encode

    def counted(names: Sequence[str]) -> np.ndarray:
        asked.extend(names)
        return np.asarray(encode(names))

    monkeypatch.setattr(gather, "load", lambda encoder: SimpleNamespace(encode=counted))
    root = with_findings(sample_root, tmp_path / "root")
    made = gather.StudyFindings(Store(root), "default", ontology()).synthesise(PREVENTS)
    assert made.comparisons
    assert "running exercise" in asked, "no entity has this name"
    assert not {"exercise", "recurrence"} & {*asked}


def test_the_findings_that_an_answer_rests_on_say_what_is_compared(
    sample_root: Path, tmp_path: Path
) -> None:
    """A question in words of its own names no part; what its answer cites does."""
    store = Store(with_findings(sample_root, tmp_path / "root"))
    read = gather.StudyFindings(store, "default", ontology())
    assert gather.findings_read(store, "default") == 4
    (walk,) = [row for row in read._findings if row["interventions"] == ["walking exercise"]]
    asked, answer = "Would I be spared by more steps a day?", "Walking put off recurrence."
    assert not read.synthesise(asked).parts.get("O"), "nothing to compare is read in it"
    passage = f"Background first. {walk['quote']}"
    made = read.synthesise(asked, answer, [(walk["doc_id"], passage)])
    assert (made.parts["I"], made.parts["O"]) == (["walking exercise"], ["recurrence"])
    best, *_ = made.comparisons
    assert walk["doc_id"] in [row.doc_id for row in best.comparison.rows]
    near = {domain.domain: domain for domain in best.certainty}["indirectness"]
    assert near.judgement == "not judged", "the question named neither people nor outcome"
    elsewhere = [("0" * 32, passage)], [(walk["doc_id"], "Background first.")]
    for told in elsewhere:
        assert not read.synthesise(asked, answer, told).parts.get("O")
    other = read.synthesise(asked, "Falls were fewer.", [(walk["doc_id"], passage)])
    assert not other.parts.get("O"), "an outcome that the answer does not name"


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


LESS = "Astemol significantly reduced pain."
SAME = "Pain did not differ significantly between astemol and control."


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        (f"## Results\n\n{SAME}\n\n## Discussion\n\nIn a trial by Smith, {LESS}", [SAME]),
        (f"## Results\n\n{SAME}\n\n## 4. Discussion\n\n### Main results\n\n{LESS}", [SAME]),
        (f"## Results\n\n{SAME}\n\n## References\n\n1. Smith J. {LESS}", [SAME]),
        (f"## 1. Introduction\n\n{LESS}\n\n## 3 Results\n\n{SAME}", [SAME]),
        (f"## Results\n\n### Participants\n\nSome.\n\n### 3.2. Pain\n\n{LESS}", [LESS]),
        (f"## Results\n\n{SAME}\n\n## Results and discussion\n\n{LESS}", [SAME, LESS]),
        (f"## Summary\n\n### Background\n\n{LESS}\n\n### Results\n\n{SAME}", [SAME]),
        (f"Discussion: Others say so. Results: {LESS}", [f"Results: {LESS}"]),
        (f"## Results\n\n{SAME} Conclusion: {LESS}", [SAME]),
    ],
)
def test_what_a_paper_tells_of_other_studies_is_no_result_of_its_own(
    text: str, quotes: list[str]
) -> None:
    rows = stated([paper("one", text=f"Astemol was given.\n\n{text}")], ASKED, NAMES)
    assert [row["quote"] for row in rows if row["kind"] == "found"] == quotes


def test_a_plan_and_a_paper_on_other_treatments_tell_nothing() -> None:
    plan = "Patients will be randomised. Pain will be assessed. They will receive astemol."
    others = TEXT.replace("stemol", "spirin").replace("Aspirin", "Ice")
    papers = [paper("one", text=plan, title="A study protocol"), paper("two", text=others,
                                                                       title="Ice")]  # fmt: skip
    assert list(stated(papers, ASKED, NAMES)) == []


def test_what_both_groups_do_is_counted_for_neither() -> None:
    text = "Results: At 12 weeks both groups had improved significantly in pain (p < 0.01)."
    assert list(stated([paper("one", text=f"Astemol was given. {text}")], ASKED, NAMES)) == []


VERSUS = PARTS | {"I": ["astemol"], "C": ["aspirin"], "O": ["pain"]}
TITLED = "A trial of astemol"


def told_of(sentence: str, parts: Any = ASKED, title: str = "A trial") -> list[tuple[str, str]]:
    """Comparator and direction of what a paper is read to say that names astemol."""
    text = f"Background: Astemol is used. Results: {sentence}"
    rows = stated([paper("one", title=title, text=text)], parts, NAMES)
    return [(row["comparators"][0], row["direction"]) for row in rows]


@pytest.mark.parametrize(
    ("sentence", "parts", "title"),
    [
        ("Pain was significantly lower with exercise than with stretching.", ASKED, "A trial"),
        ("Pain was significantly lower with exercise than with stretching.", VERSUS, TITLED),
        ("Pain was significantly lower with exercise than with placebo.", ASKED, TITLED),
        ("Pain was significantly lower with exercise than with aspirin.", VERSUS, TITLED),
        ("Pain was significantly lower with exercise than with astemol.", ASKED, TITLED),
        ("Pain was significantly lower with astemol than with exercise.", ASKED, TITLED),
        ("Aspirin significantly increased pain.", VERSUS, TITLED),
        ("Pain fell significantly with astemol compared with baseline.", ASKED, TITLED),
        ("Pain was significantly reduced by exercise.", ASKED, "A trial"),
    ],
)
def test_a_comparison_of_other_treatments_is_no_row(sentence: str, parts: Any, title: str) -> None:
    assert told_of(sentence, parts, title) == []


@pytest.mark.parametrize(
    ("sentence", "comparator", "direction"),
    [
        ("Pain was significantly lower with astemol than with placebo.", "placebo", "better"),
        ("Compared with usual care, astemol significantly reduced pain.", "usual care", "better"),
        ("Pain was significantly lower with astemol than with aspirin.", "aspirin", "better"),
        ("Astemol and aspirin significantly reduced pain compared with placebo.", "placebo",
         "better"),
        ("Astemol significantly reduced pain.", "control", "better"),
        ("Astemol significantly reduced pain over time.", "control", "better"),
        ("Pain was significantly lower with astemol (28% vs 35%).", "control", "better"),
        ("Pain was significantly lower with astemol than without.", "control", "better"),
        ("Those given astemol had significantly less pain than those who did not.", "control",
         "better"),
        ("Pain was significantly lower with astemol than in non-users.", "control", "better"),
        ("Astemol significantly reduced pain over two years.", "control", "better"),
        ("Pain was significantly lower in the intervention group than in the control group.",
         "control", "better"),
    ],
)  # fmt: skip
def test_the_comparator_is_the_one_that_the_sentence_names(
    sentence: str, comparator: str, direction: str
) -> None:
    assert told_of(sentence, VERSUS, TITLED) == [(comparator, direction)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Pain was significantly lower with aspirin than with astemol.",
        "Pain was significantly higher in the control group than in the intervention group.",
        "Pain was significantly higher in those who were not given astemol.",
    ],
)
def test_what_is_told_from_the_other_side_is_no_row(sentence: str) -> None:
    assert told_of(sentence, VERSUS, TITLED) == []


def test_a_treatment_by_another_name_is_the_one_that_was_asked_for() -> None:
    text = "Results: Pain was significantly {} with {} than with {}."
    names = NameMatcher({}, {"drug A": ["astemol"]})
    told = [("lower", "astemol", "placebo"), ("higher", "placebo", "astemol")]
    found = [
        [*stated([paper("one", text=text.format(*each))], PARTS | {"O": ["pain"]}, names)]
        for each in told
    ]
    assert [row["direction"] for row in found[0]] == ["better"] and found[1] == []


def test_a_comparator_that_no_study_has_is_said() -> None:
    text = "Results: Pain was significantly lower with astemol than with placebo."
    papers = [paper("one", text=text)]
    made = synthesis(stated(papers, VERSUS, NAMES), papers, VERSUS)
    (each,) = made.comparisons
    assert each.comparison.against == "placebo or sham" and made.found.relaxed == ("C",)


@pytest.mark.parametrize(
    ("told", "people"),
    [("Seven in ten patients", None), ("107 of 200 invited", 107), ("forty-five in all", 45),
     ("40 in each group", 40)],
)  # fmt: skip
def test_the_people_of_a_study_are_no_share(told: str, people: int | None) -> None:
    assert first_number(told) == people
