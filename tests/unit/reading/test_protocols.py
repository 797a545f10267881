import pytest

from srrag.reading.prose import has_no_results

PLAN = "Ninety adults will be randomised. They will receive laser or sham. Pain will be measured."


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Laser for knee osteoarthritis: study protocol for a randomised trial", ""),
        ("Protocol: does nitrite protect the heart in infarction?", "It is randomised."),
        ("Protocol for a multicentre randomised trial of casts", "Adults are treated at home."),
        ("The IDEA trial: design and rationale", "Adults with overweight are randomised."),
        ("Laser for knee osteoarthritis", PLAN),
        ("Laser", "This is a protocol for a randomised trial. Adults will be recruited."),
        ("Laser", "## Methods/design\n\nA total of 226 adults will be recruited."),
    ],
)
def test_a_paper_that_plans_a_study_has_no_results(title: str, text: str) -> None:
    assert has_no_results(title, text)


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Dry needling in a therapeutic exercise protocol", "Pain fell more with needling."),
        ("Two protocols of exercise after knee surgery", "Strength did not differ."),
        ("Laser for knee osteoarthritis", f"{PLAN} Pain was 2 points lower (P = 0.03)."),
        ("Laser", "## Methods/design\n\n226 adults were recruited."),
        ("A trial of casts", "Casts will be cheaper. The groups were compared at a year."),
        ("Laser: study protocol and its results", "Pain fell by 2 points (95% CI 1 to 3)."),
    ],
)
def test_a_paper_that_reports_is_no_protocol(title: str, text: str) -> None:
    assert not has_no_results(title, text)
