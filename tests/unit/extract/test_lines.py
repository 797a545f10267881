import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from srrag.config.factory import ontology
from srrag.core.spec import build
from srrag.extract.lines import (
    AttributeLine,
    Bad,
    EntityLine,
    FindingLine,
    RelationLine,
    entity_line,
    patterns,
    read_entity,
    read_line,
    read_lines,
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "3 Intervention: whole-body vibration | WBV @1,4",
            EntityLine((1, 4), 1.0, 3, "Intervention", "whole-body vibration", ("WBV",)),
        ),
        ("12. Outcome: pain (0 @ 1) @[2]", EntityLine((2,), 1.0, 12, "Outcome", "pain (0 @ 1)")),
        ("3.dose: 400 mg: twice @4?", AttributeLine((4,), 0.5, 3, "dose", "400 mg: twice")),
        ("0.study_design: RCT @0", AttributeLine((0,), 1.0, 0, "study_design", "RCT")),
        ("5.outcome: walk | 6MWT @8", AttributeLine((8,), 1.0, 5, "outcome", "walk")),
        ("1,2 has_condition 7 @2?70", RelationLine((2,), 0.7, (1, 2), "has_condition", (7,))),
        ("1 part_of 2 @3-5, 9.", RelationLine((3, 4, 5, 9), 1.0, (1,), "part_of", (2,))),
        (
            "found 3 > 4 : 5 at 6 in 7 = less; effect: -2.1; ci: 95% -3.0; -1.2; p: <0.001 @12,13",
            FindingLine(
                (12, 13), 1.0, "found", ((3,),), ((4,),), (5,), (6,), (7,), (), "less", "-2.1",
                "95% -3.0; -1.2", "<0.001",
            ),
        ),
        (
            "background - : 5,6 = no difference @1",
            FindingLine((1,), 1.0, "background", (), (), (5, 6), direction="no difference"),
        ),
        (
            "planned 3,4+7 > 5 + 7 : 6 @2",
            FindingLine((2,), 1.0, "planned", ((3,), (4, 7)), ((5, 7),), (6,)),
        ),
        (
            "3 > 4 : 5 = 40% vs. 83%; p = 0.15 @7",
            FindingLine((7,), 1.0, "found", ((3,),), ((4,),), (5,), effect="40% vs. 83%", p="0.15"),
        ),
        (
            "found 3 > 4 : 5 in 6 > 7 = Better ?. @7",
            FindingLine(
                (7,), 0.5, "found", ((3,),), ((4,),), (5,), people=(6,), others=(7,),
                direction="better", tends=True,
            ),
        ),
        (
            "found 3 > 4 : 5 = tends less; p: 0.06 @7",
            FindingLine((7,), 0.5, "found", ((3,),), ((4,),), (5,), direction="less", p="0.06",
                        tends=True),
        ),
        (
            "found 3 : 5 = Not inferior; effect: 9 of 40 @7",
            FindingLine(
                (7,), 1.0, "found", ((3,),), outcomes=(5,), direction="not inferior",
                effect="9 of 40",
            ),
        ),
        ("3 Intervention: vibration", Bad("3 Intervention: vibration", "ungrounded")),
        ("vibration helps @3", Bad("vibration helps @3", "malformed")),
        ("3 Intervention: | @3", Bad("3 Intervention: | @3", "malformed")),
        ("", Bad("", "ungrounded")),
    ],
)  # fmt: skip
def test_a_line_is_read_by_its_form(text: str, line: object) -> None:
    assert read_line(text) == line


def test_one_bad_line_costs_itself_and_an_id_names_one_thing() -> None:
    told = read_lines(["1 Outcome: pain @1", "pain", "1 Outcome: function @2", "0 Outcome: x @1"])
    assert [each.name for each in told.entities.values()] == ["pain"]
    assert [bad.reason for bad in told.bad] == ["ungrounded", "repeated_id", "repeated_id"]
    known = {
        1: EntityLine((), 1.0, 1, "Outcome", "pain", ("VAS",)),
        2: EntityLine((), 1.0, 2, "Outcome", "walk"),
    }
    told = read_lines(["1 Outcome: vas @1", "2 Outcome: falls @2", "3 Outcome: falls @2"], known)
    assert [*told.entities] == [1, 3]
    assert [(bad.line, bad.reason) for bad in told.bad] == [("2 Outcome: falls @2", "repeated_id")]


@given(st.text(max_size=60) | st.text("0123456789 .,:;>=@?|foundatinAb_-–", max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_lines([text, f"{text} @1", f"3 {text} @2", f"3 > 4 : 5 = {text} @3"])


def test_an_entity_is_read_back_from_the_table_of_the_next_block() -> None:
    entity = EntityLine((), 1.0, 3, "Outcome", "six-minute walk: distance", ("6MWD", "walk"))
    assert read_entity(entity_line(entity)) == entity
    assert read_entity("nothing") is None


def test_the_guide_allows_the_types_relations_and_attributes_of_the_schema_alone() -> None:
    made = patterns(ontology(), ["followup_weeks"])
    entities = re.compile("|".join(f"({each})" for each in made["entities"]))
    assert entities.fullmatch("1 Outcome: pain | VAS @1,2?")
    assert entities.fullmatch("0.study_design: trial @1")
    assert not entities.fullmatch("1 Animal: cat @1")
    assert not entities.fullmatch("1.colour: red @1")
    assert not entities.fullmatch("1.followup_weeks: 3 @1")
    assert not entities.fullmatch("1 Outcome: pain")
    (relations,) = made["relations"]
    assert re.fullmatch(relations, "1,2 part_of 3 @4")
    assert not re.fullmatch(relations, "1 compares_to 3 @4"), "it follows from a finding"
    (findings,) = made["findings"]
    for line in (
        "found 1 > 2,3 : 4 at 5 in 6 = no difference; effect: 1 vs. 2; ci: 95% 1 to 2; p: .1 @7",
        "planned 1 : 2 @3",
        "found 1+2 > 1 : 4 = effect: 3 of 40; p: .1 @7",
        "found 1 > 2 : 4 in 5 > 6 = not inferior @7",
        "background - : 2 = better @3?",
        "found 1 > 2 : 4 = tends more; p: .07 @3",
    ):
        assert re.fullmatch(findings, line)
        assert not isinstance(read_line(line), Bad)
    assert not re.fullmatch(findings, "found 1 : 2 = good @3")
    assert not re.fullmatch(findings, "found 1 : 2 = tends differs @3")


def test_a_schema_without_findings_has_no_guide_for_them() -> None:
    assert "findings" not in patterns(ontology("pico_paper"))
    assert "findings" not in patterns(ontology("neutral"))


def test_a_relation_that_follows_from_findings_cannot_be_one_of_the_schema() -> None:
    spec = yaml.safe_load(
        "{_target_: Ontology, entities: [A], relations: {r: {head: [A], tail: [A]}},"
        " findings: {better: r}}"
    )
    with pytest.raises(ValueError, match="relation 'r' follows from findings"):
        build(spec)
