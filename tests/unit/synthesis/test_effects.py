"""Effects as papers print them, and what becomes of those that cannot be pooled."""

from __future__ import annotations

import math

import pytest

from srrag.synthesis.effects import Effect, Unpooled, from_counts, read_effect, unconfirmed


@pytest.mark.parametrize(
    ("effect", "interval", "direction", "outcome", "kind", "ends"),
    [
        ("17.6% vs. 60.3%, OR 0.106", "95% 0.057-0.194", "better", "failure", "odds ratio",
         (0.106, 0.057, 0.194)),
        ("hazard ratio 2.2", "95% C.I. 1.2-4.0", "worse", "mortality", "hazard ratio",
         (2.2, 1.2, 4.0)),
        ("summary rate ratio 0.18, PE 82% (95% CI 75-87%)", "95% 0.13-0.25", "better", "malaria",
         "rate ratio", (0.18, 0.13, 0.25)),
        ("11 (55%) vs. 12 (54.5%), risk ratio 1.0083", "95% 0.5817 to 1.7480", "no difference",
         "adverse events", "risk ratio", (1.0083, 0.5817, 1.7480)),
        ("aOR 2.5", "95% CI, 1.6 to 3.9", "better", "treatment success compared to failure",
         "odds ratio", (2.5, 1.6, 3.9)),
        ("3.3 mmHg lower", "95% CI 0.3 to 6.3", "better", "systolic blood pressure",
         "mean difference", (-3.3, -6.3, -0.3)),
        ("mean difference −2.46 points", "95% −3.72 to −1.21", "better", "depression score",
         "mean difference", (-2.46, -3.72, -1.21)),
        ("difference 2.1 points", "95% CI 1.0 to 3.2", "better", "pain", "mean difference",
         (-2.1, -3.2, -1.0)),
        ("SMD −0.39", "−0.58 to −0.19", "less", "pain", "standardised mean difference",
         (-0.39, -0.58, -0.19)),
    ],
)  # fmt: skip
def test_kind_estimate_and_interval_are_read_as_printed(
    effect: str, interval: str, direction: str, outcome: str, kind: str, ends: tuple[float, ...]
) -> None:
    read = read_effect(effect, interval, direction, outcome)
    assert isinstance(read, Effect), read
    assert read.kind == kind and (read.value, read.low, read.high) == ends


@pytest.mark.parametrize(
    ("effect", "interval", "direction", "outcome", "reason"),
    [
        ("RR 0.8", "", "better", "death", "no interval"),
        ("", "0.5 to 0.9", "better", "death", "no estimate"),
        ("33% vs. 18%", "", "better", "treatment success", "percentages without numbers"),
        ("36.8 y vs. 27.6 y", "95% 34.0-39.7 vs. 25.2-30.2", "better", "life", "more than one"),
        ("RR = 1.19", "95% 1.20-2.08", "more", "belief", "does not lie in its interval"),
        ("0.29", "95% 0.01-0.57", "better", "quality of life", "kind of effect is not printed"),
        ("β = 0.72", "95% 0.21-1.23", "better", "self-efficacy", "coefficient is not pooled"),
        ("reduced by 21%", "95% 0 to 38%", "better", "dysentery", "relative reduction is not"),
        ("OR 0.5", "95% 0.4 to 2.9", "unclear", "death", "not symmetric"),
        ("OR 2.5", "95% 1.6 to 3.9", "better", "death", "points the other way"),
        ("difference of 46 μg/h", "95% 24-70", "better", "fentanyl dose", "sign nothing tells"),
        ("OR 0.5", "95% -0.1 to 0.9", "better", "death", "at or below 0"),
        ("OR 0.5", "95% 0.9 to 0.1", "better", "death", "wrong way round"),
        ("OR 0.5", "see table 3", "better", "death", "not read"),
        ("OR 0.5", f"0.4 to {'9' * 400}", "better", "death", "cannot be"),
        (f"mean difference {'9' * 4400}", "1 to 3", "better", "death", "cannot be"),
        (f"{'9' * 4400} of {'9' * 4400} vs. 3 of 4", "", "better", "death", "cannot be"),
        (f"{'999,' * 120}999 of 7 vs. 3 of 4", "", "better", "death", "cannot be"),
        ("OR 1e0 100000000000000000000", "100000000000000000000 to 100000000000000016384", "more",
         "death", "cannot be"),
        ("mean difference 0", f"-1 to 0.{'0' * 400}1", "more", "death", "cannot be"),
    ],
)  # fmt: skip
def test_what_cannot_be_pooled_is_told_with_its_reason(
    effect: str, interval: str, direction: str, outcome: str, reason: str
) -> None:
    read = read_effect(effect, interval, direction, outcome)
    assert isinstance(read, Unpooled) and reason in read.reason


def test_a_risk_ratio_is_made_of_the_events_and_people_of_both_arms() -> None:
    read = read_effect("30 of 378 [7.94%] vs. 42 of 86 [48.8%]", "", "better", "carriage")
    assert isinstance(read, Effect) and read.counted and not read.corrected
    assert read.value == pytest.approx((30 / 378) / (42 / 86))
    assert read.variance == pytest.approx(1 / 30 - 1 / 378 + 1 / 42 - 1 / 86)


def test_an_empty_cell_gets_half_an_event_and_two_empty_arms_tell_nothing() -> None:
    read = from_counts(0, 20, 3, 22)
    assert isinstance(read, Effect) and read.corrected
    assert read.value == pytest.approx((0.5 / 21) / (3.5 / 23))
    assert "half an event" in str(read)
    assert isinstance(from_counts(0, 20, 0, 22), Unpooled)
    assert isinstance(from_counts(21, 20, 0, 22), Unpooled)


def test_a_turned_effect_is_that_of_the_other_side() -> None:
    ratio = Effect("odds ratio", 0.5, 0.25, 0.8).turned()
    assert (ratio.value, ratio.low, ratio.high) == (2, 1.25, 4)
    difference = Effect("mean difference", -2, -3, 1).turned()
    assert (difference.value, difference.low, difference.high) == (2, -1, 3)
    assert ratio.estimate == math.log(2) and difference.crosses and not ratio.crosses


def test_the_level_of_an_interval_decides_the_variance() -> None:
    sure = read_effect("OR 1.30", "99% 0.75-2.26", "no difference", "preeclampsia")
    assert isinstance(sure, Effect) and sure.level == 0.99
    assert sure.variance == pytest.approx((math.log(2.26 / 0.75) / (2 * 2.5758293)) ** 2)


@pytest.mark.parametrize(
    ("p", "interval", "unproven"),
    [
        ("0.09", "", True),
        ("> 0.05", "", True),
        ("NS", "", True),
        ("not significant", "", True),
        ("adj = 0.24", "", True),
        ("0.05", "", False),
        ("< 0.05", "", False),
        ("<.001", "95% -2 to 3", False),
        (".02", "", False),
        ("", "95% -1.409, 0.698", True),
        ("", "95% −2.45, 0.01", True),
        ("", "95% 0.2 to 3.1", False),
        ("significant", "", False),
        ("", "", False),
    ],
)
def test_a_test_that_leaves_no_effect_open_is_known(p: str, interval: str, unproven: bool) -> None:
    assert unconfirmed(p, interval, Unpooled("no interval")) is unproven


def test_a_ratio_whose_interval_holds_one_confirms_nothing() -> None:
    read = read_effect("OR 0.8", "95% CI 0.6 to 1.1")
    assert unconfirmed("", "", read)
