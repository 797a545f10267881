"""What findings say across papers, and what is never counted."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest

from srrag.expand.picot_anchors import rule_anchors
from srrag.synthesis.certainty import asked_of
from srrag.synthesis.effects import Unpooled
from srrag.synthesis.text import as_images, draw, readable
from tests.unit.synthesis.made import PARTS, finding, paper, synthesis

OR = {"effect": "OR 0.5", "interval": "95% CI 0.3 to 0.8333"}


def test_background_plans_and_conclusions_are_never_results() -> None:
    made = synthesis(
        [finding("one"), finding("two", kind="background"), finding("three", "", kind="planned"),
         finding("four", kind="concluded", comparators=[])]
    )  # fmt: skip
    (each,) = made.comparisons
    assert [row.paper.doc_id for row in each.comparison.rows] == ["one"]
    assert each.directions == {"better": {"C": 1}}
    assert made.found.background == 1 and len(made.found.concluded) == 1
    (plan,) = made.found.announced
    assert plan.protocol and not plan.found
    text = readable(made)
    assert "Announced: death" in text and "1 told as background" in text


@pytest.mark.parametrize(
    ("one", "two", "why"),
    [
        ({"pmid": "7"}, {"pmid": "7"}, "PMID"),
        ({"title": "A trial"}, {"title": "A Trial."}, "title"),
        ({"text": "NCT01234567"}, {"text": "(NCT 01234567)"}, "registration number"),
    ],
)
def test_a_study_counts_once_however_many_papers_tell_of_it(
    one: dict[str, str], two: dict[str, str], why: str
) -> None:
    papers = [paper("one", **one), paper("two", **two)]
    made = synthesis([finding("one"), finding("two"), finding("one", p="0.01")], papers)
    (row,) = made.comparisons[0].comparison.rows
    assert len(row.papers) == 2 and row.one_by == why and len(row.more) == 2
    assert "One study in 2 papers" in readable(made)


def test_a_review_that_names_a_trial_is_not_that_trial_and_stands_apart() -> None:
    text = "NCT01234567"
    papers = [paper("trial", text=text), paper("review", text=text, grade="B")]
    made = synthesis([finding("trial"), finding("review", grade="B")], papers)
    (each,) = made.comparisons
    assert [row.paper.doc_id for row in each.comparison.rows] == ["trial"]
    assert [row.paper.doc_id for row in each.comparison.reviews] == ["review"]
    assert each.directions == {"better": {"C": 1}}


def test_effects_of_one_kind_are_pooled_and_other_kinds_are_named() -> None:
    pytest.importorskip("statsmodels", reason="the extra `synthesis` is not installed")
    made = synthesis(
        [finding("one", **OR), finding("two", effect="OR 0.7", interval="0.5 to 0.98"),
         finding("three", effect="HR 0.9", interval="0.8 to 1.0125"), finding("four")]
    )  # fmt: skip
    (each,) = made.comparisons
    assert list(each.pooled) == ["odds ratio"] and each.pooled["odds ratio"].studies == 2
    reasons = dict(each.unpooled)
    assert reasons["Trial three of drug A"] == "the only hazard ratio"
    assert reasons["Trial four of drug A"] == "no interval"
    (told,) = made.json["comparisons"][0]["pooled"]
    assert 0.5 < told["random"] < 0.7 and told["prediction_interval"] is None
    assert sum(sum(by.values()) for by in each.directions.values()) == 4


@pytest.mark.parametrize(
    ("given", "comparators", "against"),
    [
        (["drug A"], ["placebo"], "placebo or sham"),
        (["drug A"], ["sham", "usual care"], "placebo or sham"),
        (["drug A"], ["aspirin plus placebo"], "aspirin plus placebo"),
        (["drug A"], ["warfarin", "placebo"], "warfarin and placebo"),
        (["drug A"], ["placebo or ibuprofen"], "placebo or ibuprofen"),
        (["drug A plus metformin"], ["placebo plus metformin"], "placebo or sham"),
        (["drug A", "usual care"], ["placebo and standard care"], "placebo or sham"),
        (["drug A"], ["sham acupuncture and rest"], "sham acupuncture and rest"),
        (["drug A"], ["control (placebo)"], "placebo or sham"),
        (["drug A"], ["saline (placebo)"], "placebo or sham"),
        (["drug A"], ["placebo, once daily"], "placebo or sham"),
        (["drug A"], ["mobile vehicle clinic"], "mobile vehicle clinic"),
        (["drug A"], ["vehicle cream"], "placebo or sham"),
        (["drug A"], ["usual care"], "usual care or no treatment"),
        (["drug A"], ["aspirin", "ibuprofen"], "aspirin and ibuprofen"),
    ],
)
def test_a_dummy_beside_an_active_drug_is_no_placebo_group(
    given: list[str], comparators: list[str], against: str
) -> None:
    (made,) = synthesis([finding("one", interventions=given, comparators=comparators)]).comparisons
    assert made.comparison.against == against


def test_one_study_and_kinds_that_differ_are_counted_by_direction_and_never_pooled() -> None:
    kinds = {
        "odds ratio": OR, "hazard ratio": {"effect": "HR 0.9", "interval": "0.8265 to 0.98"},
        "mean difference": {"effect": "mean difference -2.0", "interval": "-3.0 to -1.0"},
        "standardised mean difference": {"effect": "SMD -0.4", "interval": "-0.6 to -0.2"},
    }  # fmt: skip
    for rows in ([("odds ratio", OR)], list(kinds.items())):
        made = synthesis([finding(kind, **told) for kind, told in rows])
        (each,) = made.comparisons
        assert not each.pooled and draw(made, Path("nowhere")) == []
        assert each.directions == {"better": {"C": len(rows)}}
        for kind, _ in rows:
            assert dict(each.unpooled)[f"Trial {kind} of drug A"].startswith(f"the only {kind}")
    (alone,) = synthesis([finding("one", **OR)]).comparisons
    judged = {domain.domain: domain for domain in alone.certainty}
    assert judged["inconsistency"].judgement == "not judged"


def test_survival_and_death_are_not_pooled_and_contradict_nothing() -> None:
    longer = finding("one", "more", outcome="survival", effect="OR 1.5", interval="1.2 to 1.88")
    fewer = finding("two", effect="OR 0.67", interval="0.53 to 0.83")
    made = synthesis([longer, fewer, finding("one", "less")])
    assert not any(each.pooled for each in made.comparisons)
    for each in made.comparisons:
        assert not any(row.contrary for row in each.comparison.rows)
    outcomes = [(each.comparison.outcome, len(each.comparison.rows)) for each in made.comparisons]
    assert outcomes == [("death", 2), ("survival", 1)]


def test_mean_differences_of_other_scales_are_not_pooled() -> None:
    told = {"effect": "mean difference -2.0 points", "interval": "-3.0 to -1.0"}
    made = synthesis(
        [finding("one", outcome="pain VAS", **told), finding("two", outcome="WOMAC pain", **told)],
        parts=PARTS | {"O": ["pain"]},
    )
    (each,) = made.comparisons
    assert not each.pooled and len(each.comparison.rows) == 2


def test_two_asked_outcomes_are_two_comparisons_and_never_one_pool() -> None:
    pytest.importorskip("statsmodels", reason="the extra `synthesis` is not installed")
    stroke = {"outcome": "stroke", "effect": "HR 0.5", "interval": "0.3 to 0.8333"}
    death = {"effect": "HR 0.95", "interval": "0.9 to 1.003"}
    made = synthesis(
        [finding("one", **stroke), finding("two", **death), finding("two", **stroke)],
        parts=PARTS | {"O": ["death", "stroke"]},
    )
    told = {each.comparison.outcome: each for each in made.comparisons}
    assert {name: len(each.comparison.rows) for name, each in told.items()} == {
        "death": 1, "stroke": 2,
    }  # fmt: skip
    assert not told["death"].pooled and told["stroke"].pooled["hazard ratio"].studies == 2


@pytest.mark.parametrize(
    "name",
    ["control", "the control group", "controls", "Control subjects", "untreated controls",
     "no-treatment control", "waitlist control", "usual care", "standard of care",
     "routine antenatal care", "usual care alone", "treatment as usual", "usual care control group",
     "standard therapy", "no treatment", "no vitamin D supplementation", "without metformin",
     "untreated", "untreated eyes", "waiting list", "wait-list group", "watchful waiting",
     "wait and see", "usual care or no treatment", "nothing", "control (no exercise)",
     "sedentary controls", "control group (n = 20)", "non-exercising controls",
     "controls without exercise", "delayed treatment control"],
)  # fmt: skip
def test_usual_care_and_no_treatment_are_one_comparator(name: str) -> None:
    (made,) = synthesis([finding("one", comparators=[name])]).comparisons
    assert made.comparison.against == "usual care or no treatment"


@pytest.mark.parametrize(
    "name",
    ["rate control", "motor control exercise", "tight glycaemic control", "vector control",
     "infection control programme", "birth control pill", "pain control with morphine",
     "no-touch technique", "bandage without compression", "aspirin alone",
     "usual care plus exercise", "routine episiotomy", "controlled release", "standard dose"],
)  # fmt: skip
def test_an_active_comparator_is_called_by_its_name(name: str) -> None:
    told = {"effect": "HR 0.8", "interval": "0.7 to 0.9143"}
    rows = [finding("one", comparators=[name], **told), finding("two", comparators=["usual care"])]
    made = synthesis(rows, parts=PARTS | {"C": []})
    assert {each.comparison.against for each in made.comparisons} == {
        name, "usual care or no treatment",
    }  # fmt: skip


def test_directions_that_oppose_stand_beside_what_sets_the_studies_apart() -> None:
    papers = [
        paper("one", told={"sample_size": ("300",), "dose": ("5 mg",)}),
        paper("two", told={"sample_size": ("300",), "dose": ("50 mg",)}),
    ]
    made = synthesis([finding("one"), finding("two", "worse", times=["1 year"])], papers)
    (each,) = made.comparisons
    assert each.differs == {"dose": ("5 mg", "50 mg")}
    domains = {domain.domain: domain for domain in each.certainty}
    assert domains["inconsistency"].judgement == "concern"
    assert domains["inconsistency"].sentences == ("one says better.", "two says worse.")
    assert "dose: [1] 5 mg | [2] 50 mg" in readable(made)


def test_in_short_it_says_how_many_studies_whether_they_agree_and_how_sure() -> None:
    papers = [paper("one"), paper("two", grade="D"), paper("three"), paper("review", grade="B")]
    told = [finding("one"), finding("two"), finding("three", "worse", people=["boys"])]
    (each,) = synthesis([*told, finding("review")], papers).comparisons
    short = each.in_short
    assert short["studies"] == (
        "3 studies: 2 better (1 randomised trial and 1 cohort study), 1 worse (1 randomised trial)."
        " 1 systematic review or meta-analysis not counted."
    )
    assert short["agree"].startswith("The studies do not say the same: they differ in ")
    assert "inconsistency (studies point opposite ways)" in short["sure"].split("No concern")[0]
    assert "Not judged: " in short["sure"] and "low" not in short["sure"].split()
    (alone,) = synthesis([finding("one")]).comparisons
    assert (
        alone.in_short["studies"] == "1 randomised trial: better." and not alone.in_short["agree"]
    )
    (same,) = synthesis([finding("one"), finding("two", "worse")]).comparisons
    assert same.in_short["agree"].endswith("what sets them apart is not told.")


def test_sentences_of_one_paper_that_contradict_each_other_count_as_no_direction() -> None:
    made = synthesis([finding("one", **OR), finding("one", "worse", quote="Yet more died.")])
    (row,) = made.comparisons[0].comparison.rows
    assert row.counted == "contradicts itself" and row.contrary == ("Yet more died.",)
    assert isinstance(row.read, Unpooled) and "contradict" in row.read.reason
    assert "It also says: “Yet more died.”" in readable(made)


def test_a_difference_that_its_own_test_does_not_confirm_counts_as_a_tendency() -> None:
    rows = [finding("a", p="0.01"), finding("b", p="0.09"), finding("c", "worse", p="0.4")]
    (made,) = synthesis(rows).comparisons
    assert made.directions == {
        "better": {"C": 1},
        "tends better": {"C": 1},
        "tends worse": {"C": 1},
    }
    inconsistency = next(each for each in made.certainty if each.domain == "inconsistency")
    assert inconsistency.judgement == "concern"


def test_a_subgroup_never_stands_for_the_whole() -> None:
    part = finding("one", "better", people=["women"], places=[{"start": 0, "end": 5}], **OR)
    whole = finding("one", "no difference")
    (row,) = synthesis([part, whole]).comparisons[0].comparison.rows
    assert row.counted == "no difference" and not row.subgroup
    others = [finding("one", outcome=name) for name in ("pain", "falls")]
    (each,) = synthesis([part, *others]).comparisons
    assert each.comparison.rows[0].subgroup and not each.pooled
    assert "part of its people" in dict(each.unpooled)["Trial one of drug A"]


def test_a_conclusion_that_goes_beyond_its_result_is_told() -> None:
    made = synthesis(
        [finding("one", "no difference"),
         finding("one", kind="concluded", comparators=[], quote="Drug A saves lives.")]
    )  # fmt: skip
    assert made.comparisons[0].comparison.rows[0].concluded == "Drug A saves lives."
    assert "Its conclusion goes further" in readable(made)


def test_what_is_asked_for_may_be_the_comparator_of_the_paper() -> None:
    row = finding("one", "worse", interventions=["surgery"], comparators=["astemol"],
                  effect="OR 2.0", interval="1.25 to 3.2")  # fmt: skip
    made = synthesis([row])
    (told,) = made.comparisons[0].comparison.rows
    assert told.turned and told.counted == "better"
    assert not isinstance(told.read, Unpooled) and told.read.value == 0.5


def test_a_change_since_before_is_no_comparison_and_a_figure_of_one_group_none_at_all() -> None:
    made = synthesis(
        [finding("one"), finding("two", comparators=[]), finding("three", "", comparators=[])]
    )
    assert [each.comparison.against for each in made.comparisons] == [
        "placebo or sham", "before, or no comparator named",
    ]  # fmt: skip
    assert made.found.one_group == 1
    assert made.comparisons[1].certainty[0].judgement == "concern"


def test_retracted_papers_and_other_people_are_left_aside_by_name() -> None:
    papers = [paper("one", status="retracted"), paper("two", title="Drug A in horses"),
              paper("three", title="Drug A in adults with asthma")]  # fmt: skip
    rows = [finding(each.doc_id) for each in papers]
    made = synthesis(rows, papers, PARTS | {"P": ["asthma"]})
    assert [row.paper.doc_id for row in made.comparisons[0].comparison.rows] == ["three"]
    assert "Of other people, 2 studies" in readable(made)
    made = synthesis(rows, papers)
    assert [each.doc_id for each in made.found.left_out] == ["one"]


def test_a_paper_that_is_shown_by_its_title_carries_its_mark() -> None:
    papers = [paper("one", status="retracted", title="Drug A in horses"),
              paper("two", text="NCT01234567", title="Drug A in asthma"),
              paper("three", text="NCT01234567", title="Asthma and drug A", status="concern"),
              paper("four", title="Asthma again", status="preprint")]  # fmt: skip
    rows = [finding(each.doc_id) for each in papers]
    made = synthesis(rows, papers, PARTS | {"P": ["asthma"]})
    text = " ".join(readable(made).split())
    assert "Of other people, 1 studies: Drug A in horses (2020; grade C) [RETRACTED]" in text
    assert "Asthma and drug A (2020; grade C) [UNDER AN EXPRESSION OF CONCERN]" in text
    (told,) = made.json["comparisons"]
    assert told["studies"][0]["paper_statuses"] == ["ok", "concern"]
    assert {each["study"]: each["status"] for each in told["not_pooled"]}["Asthma again"] == (
        "preprint"
    )


def test_a_retracted_paper_of_a_study_tells_nothing_of_it_and_is_named() -> None:
    papers = [paper("one", pmid="7", told={"sample_size": ("300",)}),
              paper("two", pmid="7", title="Safety", status="retracted")]  # fmt: skip
    rows = [finding("one"), finding("two", outcome="falls"),
            finding("one", "", kind="planned", outcome="falls")]  # fmt: skip
    made = synthesis(rows, papers, PARTS | {"O": []})
    (row,) = made.comparisons[0].comparison.rows
    assert [each.doc_id for each in row.papers] == ["one"] and row.one_by == ""
    assert [each.doc_id for each in made.found.left_out] == ["two"]
    asked = synthesis(rows, papers)
    assert [each.doc_id for each in asked.found.left_out] == ["two"], "on another outcome too"
    bias = made.comparisons[0].certainty[0]
    assert "masking is told of 0 of 1" in bias.reason
    assert [each.found for each in made.found.announced] == [False]


def test_a_retracted_paper_still_shows_that_two_others_are_one_study() -> None:
    papers = [paper("one", pmid="7"), paper("two", title="Knee pain"),
              paper("gone", pmid="7", title="Knee pain", status="retracted")]  # fmt: skip
    (made,) = synthesis([finding(each.doc_id) for each in papers], papers).comparisons
    assert [[each.doc_id for each in row.papers] for row in made.comparison.rows] == [
        ["one", "two"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("link", "later", "left"),
    [
        ("pmid:8", ["pmid:8"], ["one"]),
        ("doi:10.1/b", ["pmid:8", "doi:10.1/b"], ["one"]),
        ("pmid:9", ["pmid:8"], []),
        ("", [], []),
    ],
)
def test_a_paper_whose_later_version_is_here_is_left_out(
    link: str, later: list[str], left: list[str]
) -> None:
    papers = [paper("one", status="superseded", link=link), paper("two", ids=frozenset(later))]
    made = synthesis([finding("one"), finding("two")], papers)
    assert [each.doc_id for each in made.found.left_out] == left
    (each,) = made.comparisons
    assert each.directions == {"better": {"C": 2 - len(left)}}


@pytest.mark.parametrize("kind", ["concluded", "planned", "background"])
def test_a_later_version_without_a_result_leaves_no_result_out(kind: str) -> None:
    papers = [paper("one", status="superseded", link="pmid:8"),
              paper("two", ids=frozenset(["pmid:8"]))]  # fmt: skip
    (each,) = synthesis([finding("one"), finding("two", kind=kind)], papers).comparisons
    assert [row.doc_id for row in each.comparison.rows] == ["one"]


def test_where_the_build_did_not_look_for_retractions_it_says_so() -> None:
    made = synthesis([finding("one")], [paper("one", status="")])
    assert "retracted is not known" in " ".join(readable(made).split())
    assert made.json["standing_known"] is False
    known = synthesis([finding("one")])
    assert "retracted" not in readable(known) and known.json["standing_known"] is True


def test_a_forest_plot_marks_a_paper_that_is_not_in_order() -> None:
    pytest.importorskip("statsmodels", reason="the extra `synthesis` is not installed")
    papers = [paper("one", status="concern", title="A long title " * 9), paper("two")]
    (image, *_) = as_images(synthesis([finding("one", **OR), finding("two", **OR)], papers))
    drawn = b64decode(image.partition(",")[2]).decode()
    assert "2020 [concern]" in drawn and drawn.count("[") == 1


def test_an_outcome_that_no_study_names_is_said_and_the_others_are_shown() -> None:
    made = synthesis([finding("one")], parts=PARTS | {"O": ["walking"]})
    assert made.found.relaxed == ("O",) and made.comparisons
    assert "No result that was read tells of “walking”" in readable(made)


def test_an_outcome_told_as_background_alone_hides_no_result() -> None:
    rows = [finding("one"), finding("one", kind="background", outcome="walking")]
    made = synthesis(rows, parts=PARTS | {"O": ["walking"]})
    assert made.found.relaxed == ("O",) and made.comparisons[0].comparison.outcome == "death"


def test_an_illness_asked_for_as_an_outcome_keeps_the_studies_of_it() -> None:
    papers = [paper("one", title="Drug A in gout"), paper("two", title="Drug A in asthma")]
    made = synthesis([finding("one"), finding("two")], papers, PARTS | {"O": ["gout"]})
    assert [row.paper.doc_id for row in made.comparisons[0].comparison.rows] == ["one"]


def test_certainty_is_argued_and_what_papers_do_not_tell_is_not_judged() -> None:
    open_label = {"sample_size": ("40",), "masking": ("open-label",)}
    made = synthesis([finding("one"), finding("one", "", kind="planned", outcome="falls")],
                     [paper("one", told=open_label)], PARTS | {"O": []})  # fmt: skip
    domains = {d.domain: (d.judgement, d.reason) for d in made.comparisons[0].certainty}
    assert domains["risk of bias"][0] == "concern"
    assert domains["inconsistency"] == ("not judged", "there is one study")
    assert domains["imprecision"] == ("concern", "40 people in all, fewer than 400")
    assert domains["reporting"][0] == "concern" and "without a result" in domains["reporting"][1]


def test_an_unknown_direction_is_unclear_and_breaks_nothing() -> None:
    made = synthesis([finding("one", "sideways"), finding("two", "not inferior")])
    assert set(made.comparisons[0].directions) == {"unclear", "not inferior"}


def test_without_any_finding_on_the_question_it_says_so() -> None:
    made = synthesis([finding("one", interventions=["surgery"])])
    assert not made.comparisons and "No result that was read compares this" in readable(made)
    assert json.loads(json.dumps(made.json))["comparisons"] == []


def test_a_forest_plot_is_drawn_of_what_is_pooled_and_its_bytes_are_the_same_again(
    tmp_path: Path,
) -> None:
    pytest.importorskip("statsmodels", reason="the extra `synthesis` is not installed")
    rows = [finding("one $", **OR), finding("two", effect="OR 0.7", interval="0.5 to 0.98")]
    made = synthesis(rows)
    paths = [Path(path) for path in draw(made, tmp_path / "a")]
    assert [path.name for path in paths] == ["forest-1.pdf", "forest-1.png"]
    again = [Path(path) for path in draw(made, tmp_path / "b")]
    assert [p.read_bytes() for p in paths] == [p.read_bytes() for p in again]
    assert draw(synthesis([finding("one")]), tmp_path) == []


def test_an_effect_that_differs_between_people_is_no_comparison_of_the_people() -> None:
    between = {"interventions": ["men"], "comparators": ["women"]}
    differs = finding("one", "better", outcome="effect of drug A vs. placebo on death", **between)
    asked = {"P": [], "I": ["men"], "C": [], "O": ["death"], "T": []}
    assert synthesis([differs], parts=asked).comparisons == ()
    assert synthesis([finding("one", **between)], parts=asked).comparisons


def test_a_study_tells_of_the_outcome_asked_for_before_one_that_is_called_alike() -> None:
    parts = PARTS | {"O": ["glucose AUC 0 240"]}
    lipids = finding("one", "no difference", outcome="cholesterol AUC 0 240")
    (each,) = synthesis(
        [lipids, finding("one", outcome="glucose AUC 0 240")], parts=parts
    ).comparisons
    (row,) = each.comparison.rows
    assert (row.outcome, row.direction) == ("glucose AUC 0 240", "better")
    other = finding("two", comparators=["drug B"], outcome="glucose AUC 0 240")
    first, second = synthesis([lipids, other], parts=parts).comparisons
    assert first.comparison.against == "drug B", "what tells of it comes first"
    assert second.comparison.outcome == "cholesterol AUC 0 240", "and what does not says so"


SEVERE = "patients with severe and very severe COPD"
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
        ("", {"age_range": ("6 to 24 months",)}, "age", ("6 to 24 months", False)),
        ("boys with asthma", {}, "age", ("boys", False)),
        ("", {}, "age", ("", None)),
        ("men with COPD", {}, "sex", ("men", False)),
        ("", {"sex": ("women", "men")}, "sex", ("women; men", True)),
        ("adults with mild COPD", {}, "condition", ("adults with mild COPD", True)),
        (f"{SEVERE}, yet few (n=9)", {}, "condition", (SEVERE, True)),
        ("adults with asthma", {}, "condition", ("adults with asthma", False)),
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
    told = synthesis([finding("one", people=[SEVERE])], papers, asked, ASKED)
    assert f"{SEVERE} (as asked)" in " ".join(readable(told).split())
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
