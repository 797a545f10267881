"""The people of a question beside those of studies."""

from __future__ import annotations

import pytest

from srrag.expand.picot_anchors import rule_anchors
from srrag.synthesis.certainty import asked_of
from srrag.synthesis.text import readable
from tests.unit.synthesis.made import PARTS, finding, paper, synthesis

ASKED = "Does drug A prevent death in older women with severe COPD treated at home?"


def fits(
    people: str, question: str = ASKED, **told: tuple[str, ...]
) -> dict[str, tuple[str, bool | None]]:
    """What a study tells of each part, and whether it meets, of a question with its P."""
    (parts,) = rule_anchors([question])
    papers = [paper("one", told=told, text="women with severe COPD")]
    rows = [finding("one", people=[people] if people else [])]
    (made,) = synthesis(rows, papers, PARTS | {"P": parts["P"]}, question).comparisons
    return {each.part: (each.told, each.meets) for each in made.fits["one"]}


def test_a_question_tells_age_sex_condition_stage_and_setting() -> None:
    (parts,) = rule_anchors([ASKED])
    assert asked_of(ASKED, parts) == {
        "age": "older women", "sex": "women", "condition": "COPD", "stage": "severe",
        "setting": "at home",
    }  # fmt: skip
    (parts,) = rule_anchors(["Does metformin help?"])
    assert set(asked_of("Does metformin help?", parts).values()) == {""}


@pytest.mark.parametrize(
    ("people", "told", "part", "expected"),
    [
        ("women aged 65 to 80 with COPD", {}, "age", ("aged 65 to 80", True)),
        ("", {"age_range": ("18-45",)}, "age", ("18-45", False)),
        ("boys with asthma", {}, "age", ("boys", False)),
        ("", {}, "age", ("", None)),
        ("men with COPD", {}, "sex", ("men", False)),
        ("", {"sex": ("women", "men")}, "sex", ("women; men", True)),
        ("adults with mild COPD", {}, "condition", ("COPD", True)),
        ("adults with asthma", {}, "condition", ("asthma", False)),
        ("adults with severe COPD", {}, "stage", ("severe", True)),
        ("adults with mild COPD", {}, "stage", ("mild", None)),
        ("", {"setting": ("hospital",)}, "setting", ("hospital", None)),
        ("", {}, "setting", ("", None)),
    ],
)
def test_what_a_study_tells_stands_beside_what_is_asked(
    people: str, told: dict[str, tuple[str, ...]], part: str, expected: tuple[str, bool | None]
) -> None:
    assert fits(people, **told)[part] == expected


def test_what_is_not_told_is_said_and_another_age_makes_evidence_indirect() -> None:
    (parts,) = rule_anchors([ASKED])
    asked = PARTS | {"P": parts["P"]}
    papers = [paper("one", text="older women with severe COPD")]
    silent = synthesis([finding("one")], papers, asked, ASKED)
    assert "age not told" in readable(silent) and "setting not told" in readable(silent)
    judged = {each.domain: each for each in silent.comparisons[0].certainty}["indirectness"]
    assert judged.judgement == "not judged" and "age" in judged.reason
    other = synthesis([finding("one", people=["boys with COPD"])], papers, asked, ASKED)
    judged = {each.domain: each for each in other.comparisons[0].certainty}["indirectness"]
    assert judged.judgement == "concern" and "1 of 1 with another age" in judged.reason
    (study,) = other.json["comparisons"][0]["studies"]
    assert study["fit"][0] == {
        "part": "age", "asked": "older women", "told": "boys", "meets": False,
    }  # fmt: skip
